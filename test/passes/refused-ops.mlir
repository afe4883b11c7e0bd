// RUN: kvc-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-check-policy))"

// An op of a dialect that a policy has no use for.
kvc.policy @foreign_op {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{a policy may use ops of kvc, arith and math, got affine.apply}}
  %x = affine.apply affine_map<() -> (4)>()
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// An op that is not pointwise.
kvc.policy @whole_constant {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{extents are known at launch and written '?', got 'tensor<4xf32>'}}
  %x = arith.constant dense<1.0> : tensor<4xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

kvc.policy @wide_integer {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{values must be index, f32, i32, i1 or tensors of the last three, got 'i64'}}
  %x = arith.constant 1 : i64
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// PoolOp C3: 12 tokens to each side, through pools of pools.
kvc.policy @far_rows {
  %w = arith.constant 4 : index
  %width = arith.constant 13 : index
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  %p = kvc.pool max %rows width(%width) : tensor<?x?x?xf32>
  %q = kvc.pool max %p width(%width) : tensor<?x?x?xf32>
  // expected-error @+1 {{pools of rows or vectors must reach at most 12 tokens to each side, got 18}}
  %r = kvc.pool max %q width(%width) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %r : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %n = kvc.reduce mean group %m : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// AllocateLayersOp C1
kvc.policy @steep_layers {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %ratio = kvc.fraction "0.5"
  // expected-error @+1 {{ratio must be 1 or more after parameters are bound, got 0.5}}
  %b = kvc.allocate_layers ratio(%ratio) : tensor<?xi32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %b : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// AllocateHeadsOp C2
kvc.policy @large_safeguard {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %guard = kvc.fraction "1.25"
  %b = kvc.allocate uniform : tensor<?xi32>
  // expected-error @+1 {{safeguard must be 0 to 1 after parameters are bound, got 1.25}}
  %h = kvc.allocate_heads %n base(%b) safeguard(%guard) : tensor<?x?xf32>, tensor<?xi32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %h : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// ScaleCountOp C1
kvc.policy @over_nothing {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %none = kvc.fraction "0"
  %b = kvc.allocate uniform : tensor<?xi32>
  // expected-error @+1 {{cannot divide by a share of 0}}
  %s = kvc.scale_count %b over(%none) : tensor<?xi32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %s : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// AttentionOp C4: one or the other.
kvc.policy @rows_and_members {
  %n = kvc.new_queries
  %a = kvc.attention last(%n) : tensor<?x?x?xf32>
  // expected-error @+1 {{of members cannot be in a policy that reads that of rows, too}}
  %m = kvc.attention last(%n) members : tensor<?x?x?xf32>
  %r = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %s = kvc.reduce sum queries %m : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %r : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}
