// What rows carry looks at one row, in one walk.
// RUN: kvc-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes,kvc-form-kernels))"

// KeepOp C3: neighbours are other rows.
kvc.policy @carried_pool {
  %w = arith.constant 5 : index
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{looks beyond a row, but rows carry what is computed from it (C3 of kvc.keep)}}
  %p = kvc.pool mean %n width(%w) : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k carry("p" = %p : tensor<?x?xf32>) : tensor<?x?xi1>
}

// -----

// KeepOp C3: what is allocated depends on the window.
kvc.policy @carried_share {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{looks beyond a row}}
  %c = kvc.allocate uniform : tensor<?xi32>
  %f = arith.uitofp %c : tensor<?xi32> to tensor<?xf32>
  %b = kvc.broadcast %f : tensor<?xf32> to tensor<?x?xf32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k carry("b" = %b : tensor<?x?xf32>) : tensor<?x?xi1>
}

// -----

// KeepOp C3: one walk over the rows: what is reduced may not be read by rows again.
kvc.policy @carried_twice {
  %n = kvc.new_queries
  %a = kvc.attention last(%n) : tensor<?x?x?xf32>
  %x = kvc.reduce max queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %y = kvc.broadcast %x : tensor<?x?xf32> to tensor<?x?x?xf32>
  %z = arith.subf %a, %y : tensor<?x?x?xf32>
  // expected-error @+1 {{looks beyond a row}}
  %s = kvc.reduce sum queries %z : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %s : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k carry("g" = %g : tensor<?x?xf32>) : tensor<?x?xi1>
}
