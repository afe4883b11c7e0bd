// RUN: kvc-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes,kvc-form-kernels))"

// SegmentOp C3
kvc.policy @mixed_cuts {
  %l = arith.constant 64 : index
  %m = arith.constant 32 : index
  %k = kvc.vectors key : tensor<?x?x?xf32>
  %x = kvc.segment max %k length(%m) from(%m) : tensor<?x?x?xf32>
  %d = arith.subf %k, %x : tensor<?x?x?xf32>
  // expected-error @+1 {{vectors that are set against segments of two lengths or origins need to be reduced over channels between}}
  %y = kvc.segment max %d length(%l) from(%m) : tensor<?x?x?xf32>
  %s = kvc.reduce mean channels %y : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %t = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %t : tensor<?x?xi1>
}

// -----

// SegmentOp C3
kvc.policy @next_of_next {
  %l = arith.constant 64 : index
  %m = arith.constant 32 : index
  %k = kvc.vectors key : tensor<?x?x?xf32>
  %x = kvc.segment max %k length(%l) from(%m) : tensor<?x?x?xf32>
  %d = arith.subf %k, %x : tensor<?x?x?xf32>
  // expected-error @+1 {{vectors of segments must be reduced over channels before they are set against the next segment}}
  %y = kvc.segment max next %d length(%l) from(%m) : tensor<?x?x?xf32>
  %s = kvc.reduce mean channels %y : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %t = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %t : tensor<?x?xi1>
}

// -----

// SegmentOp C3
kvc.policy @over_tokens {
  %l = arith.constant 64 : index
  %m = arith.constant 32 : index
  %k = kvc.vectors key : tensor<?x?x?xf32>
  %x = kvc.segment max %k length(%l) from(%m) : tensor<?x?x?xf32>
  // expected-error @+1 {{vectors of segments must be reduced over channels first}}
  %a = kvc.reduce mean tokens %x : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %b = kvc.broadcast %a : tensor<?x?xf32> to tensor<?x?x?xf32>
  %y = arith.mulf %b, %k : tensor<?x?x?xf32>
  %s = kvc.reduce mean channels %y : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %t = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %t : tensor<?x?xi1>
}
