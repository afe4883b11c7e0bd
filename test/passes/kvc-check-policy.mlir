// RUN: kvc-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-bind-params,kvc-fold-scalars,kvc-check-policy))"

// AttentionOp C1: more queries than a kernel can hold.
kvc.policy @too_many_queries {
  %n = arith.constant 2000 : index
  // expected-error @+1 {{last must be a constant of 1 to 1024 after parameters are bound, got 2000}}
  %rows = kvc.attention last(%n) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %m : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// AttentionOp C1: known at launch only.
kvc.policy @budget_many_queries {
  %n = kvc.budget
  // expected-error @+1 {{got a value that is known at launch only}}
  %rows = kvc.attention last(%n) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %m : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// PoolOp C1: even width.
kvc.policy @even_pool {
  %w = arith.constant 6 : index
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{width must be odd, got 6}}
  %p = kvc.pool max %n width(%w) : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %p, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// SegmentOp C2
kvc.policy @long_segment {
  %w = arith.constant 4096 : index
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{length must be a constant of 1 to 1024 after parameters are bound, got 4096}}
  %p = kvc.segment max %n length(%w) from(%w) : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %p, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// An op that no kernel computes.
kvc.policy @sine {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{no lowering for math.sin}}
  %s = math.sin %n : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// Types that no kernel computes with cannot be made.
kvc.policy @double {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{no lowering for arith.extf}}
  %d = arith.extf %n : tensor<?x?xf32> to tensor<?x?xf64>
  %e = arith.mulf %d, %d : tensor<?x?xf64>
  %f = arith.truncf %e : tensor<?x?xf64> to tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %f, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

kvc.policy @fused_op {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{a policy that ends in kvc.keep has no ops of level fused, got kvc.store}}
  %s = kvc.store %n : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

kvc.policy @signed_division {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %two = arith.constant 2 : i32
  %twos = kvc.broadcast %two : i32 to tensor<?xi32>
  // expected-error @+1 {{counts are divided as unsigned numbers, got arith.divsi}}
  %d = arith.divsi %c, %twos : tensor<?xi32>
  %k = kvc.topk %n, %d : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

kvc.policy @static_extents {
  // expected-error @+1 {{extents are known at launch and written '?', got 'tensor<8x?xf32>'}}
  %n = kvc.norm l2 key : tensor<8x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<8x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// PTX would call a library that no driver links.
kvc.policy @remainder {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{no lowering for arith.remf}}
  %r = arith.remf %n, %n : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %r, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// A fraction is known when the policy is compiled.
kvc.policy @chosen_fraction {
  %a = kvc.fraction "0.2"
  %b = kvc.fraction "0.3"
  %layer = kvc.layer
  %zero = arith.constant 0 : index
  %first = arith.cmpi eq, %layer, %zero : index
  // expected-error @+1 {{a fraction must be a kvc.fraction or a parameter, got the result of arith.select}}
  %s = arith.select %first, %a, %b : !kvc.fraction
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %u = kvc.allocate uniform : tensor<?xi32>
  %c = kvc.allocate_heads %n base(%u) safeguard(%s) : tensor<?x?xf32>, tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// The log-sum-exp is the compiler's business.
kvc.policy @own_lse {
  %n = arith.constant 8 : index
  %l = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{has operands of level fused in a policy that ends in kvc.keep}}
  %rows = kvc.attention last(%n) lse(%l : tensor<?x?xf32>) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %m : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// PoolOp C3: pools beside one another are added, those of the same pool counted once.
kvc.policy @pools_beside_pools {
  %n = arith.constant 8 : index
  %w = arith.constant 5 : index
  %a = kvc.attention last(%n) : tensor<?x?x?xf32>
  %1 = kvc.pool max %a width(%w) : tensor<?x?x?xf32>
  %2 = kvc.pool mean %a width(%w) : tensor<?x?x?xf32>
  %3 = arith.addf %1, %2 : tensor<?x?x?xf32>
  %4 = kvc.pool max %3 width(%w) : tensor<?x?x?xf32>
  %5 = kvc.pool mean %3 width(%w) : tensor<?x?x?xf32>
  %6 = arith.addf %4, %5 : tensor<?x?x?xf32>
  %7 = arith.mulf %6, %4 : tensor<?x?x?xf32>
  %8 = kvc.pool max %7 width(%w) : tensor<?x?x?xf32>
  %9 = arith.addf %8, %8 : tensor<?x?x?xf32>
  // expected-error @+1 {{pools of rows or vectors must look at no more than 1024 values for one, got 2500}}
  %10 = kvc.pool max %9 width(%w) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %10 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %m : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// PoolOp C3
kvc.policy @pools_of_pools {
  %n = arith.constant 8 : index
  %w = arith.constant 5 : index
  %a = kvc.attention last(%n) : tensor<?x?x?xf32>
  %1 = kvc.pool max %a width(%w) : tensor<?x?x?xf32>
  %2 = kvc.pool mean %1 width(%w) : tensor<?x?x?xf32>
  %3 = kvc.pool max %2 width(%w) : tensor<?x?x?xf32>
  %4 = kvc.pool mean %3 width(%w) : tensor<?x?x?xf32>
  // expected-error @+1 {{pools of rows or vectors must look at no more than 1024 values for one, got 3125}}
  %5 = kvc.pool max %4 width(%w) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %5 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %m : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// RowStateOp C1
kvc.policy @state_of_nobody {
  // expected-error @+1 {{reads what no row carries: kvc.keep must carry "mass"}}
  %m = kvc.row_state "mass" : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %m, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k carry("mast" = %m : tensor<?x?xf32>) : tensor<?x?xi1>
}

// -----

// AttentionOp C3
kvc.policy @all_and_new {
  %t = kvc.length
  %n = kvc.new_queries
  %a = kvc.attention last(%t) : tensor<?x?x?xf32>
  // expected-error @+1 {{of the new queries cannot be in a policy that reads all queries, too}}
  %b = kvc.attention last(%n) : tensor<?x?x?xf32>
  %x = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %y = kvc.reduce sum queries %b : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %z = arith.addf %x, %y : tensor<?x?xf32>
  %g = kvc.reduce mean group %z : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// KeepOp C4
kvc.policy @merge_by_arithmetic {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %d = arith.fptosi %n : tensor<?x?xf32> to tensor<?x?xi32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  // expected-error @+1 {{the destination must be made by kvc.nearest, got arith.fptosi}}
  kvc.keep %k merge(%d, %n : tensor<?x?xi32>, tensor<?x?xf32>) : tensor<?x?xi1>
}
