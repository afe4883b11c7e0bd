// RUN: kvc-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes))" | FileCheck %s

// Key norms are per KV head, weights per query head: the norm is repeated.
// CHECK-LABEL: kvc.policy @joins_heads
kvc.policy @joins_heads {
  %w = arith.constant 16 : index
  // CHECK: kvc.attention {{.*}} : tensor<?x16x?xf32, #kvc.axes<query_heads, window, past>>
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  // CHECK: %[[MEAN:.*]] = kvc.reduce mean window {{.*}} -> tensor<?x?xf32, #kvc.axes<query_heads, past>>
  %mean = kvc.reduce mean window %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // CHECK: %[[NORM:.*]] = kvc.norm l2 key : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
  %norm = kvc.norm l2 key : tensor<?x?xf32>
  // CHECK: %[[REPEATED:.*]] = kvc.broadcast %[[NORM]] {{.*}} to tensor<?x?xf32, #kvc.axes<query_heads, past>>
  // CHECK: arith.mulf %[[MEAN]], %[[REPEATED]]
  %times = arith.mulf %mean, %norm : tensor<?x?xf32>
  // CHECK: kvc.reduce mean group {{.*}} -> tensor<?x?xf32, #kvc.axes<kv_heads, past>>
  %group = kvc.reduce mean group %times : tensor<?x?xf32> -> tensor<?x?xf32>
  // CHECK: kvc.reduce std tokens {{.*}} -> tensor<?xf32, #kvc.axes<kv_heads>>
  %std = kvc.reduce std tokens %group : tensor<?x?xf32> -> tensor<?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %group, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// ReduceOp C4
kvc.policy @group_of_kv_heads {
  %norm = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{group needs a value per query head, got a value per KV head}}
  %group = kvc.reduce mean group %norm : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %group, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// TopkOp C1
kvc.policy @topk_of_query_heads {
  %w = arith.constant 16 : index
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  %mean = kvc.reduce mean window %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-error @+1 {{score must be per KV head, got a value per query head; reduce it over the group first}}
  %k = kvc.topk %mean, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

kvc.policy @two_window_sizes {
  %w = arith.constant 16 : index
  %n = arith.constant 8 : index
  %a = kvc.attention last(%w) : tensor<?x?x?xf32>
  %b = kvc.attention last(%n) : tensor<?x?x?xf32>
  // expected-error @+1 {{operands must have the same window, got 16 and 8}}
  %sum = arith.addf %a, %b : tensor<?x?x?xf32>
  %mean = kvc.reduce mean window %sum : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %mean : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}
