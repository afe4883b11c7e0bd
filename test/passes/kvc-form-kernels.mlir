// RUN: kvc-opt %s --split-input-file --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes,kvc-form-kernels))" 2>/dev/null | FileCheck %s
// RUN: kvc-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes,kvc-form-kernels))" >/dev/null

// Everything before the pool is one columns kernel; behind it a selection takes three
// spans kernels: pool and first digits, candidates, the selection with the list.
// Nothing with a window axis is stored. The pass is idempotent.
// CHECK-LABEL: kvc.policy @window_mean
// CHECK: kvc.kernel statistics
// CHECK: %[[LSE:.*]] = kvc.kernel combine
// CHECK: %[[S:.*]] = kvc.kernel columns "columns0"() lse(%[[LSE]]) : {{.*}} -> tensor<?x?xf32, #kvc.axes<kv_heads, past>> {
// CHECK: kvc.attention
// CHECK: kvc.reduce mean queries
// CHECK: kvc.reduce mean group
// CHECK: %[[P:.*]]:3 = kvc.kernel spans "spans0"(%[[S]])
// CHECK: %[[POOL:.*]] = kvc.pool
// CHECK: kvc.key_prefix %[[POOL]]
// CHECK: kvc.count_digits %[[POOL]]
// CHECK: %[[C:.*]]:6 = kvc.kernel spans "spans1"(%[[P]]#0, %[[P]]#2)
// CHECK: kvc.list_candidates
// CHECK: %[[K:.*]]:2 = kvc.kernel spans "spans2"(%[[P]]#0, %[[C]]#0, %[[C]]#1, %[[C]]#2, %[[C]]#3, %[[C]]#4, %[[C]]#5, %[[P]]#2, %[[P]]#1)
// CHECK: kvc.topk
// CHECK: kvc.list_kept
// CHECK: kvc.kernel compact "compact"(%[[K]]#0, %[[K]]#1)
// CHECK: kvc.done
kvc.policy @window_mean {
  %w = arith.constant 32 : index
  %width = arith.constant 7 : index
  // expected-remark @+1 {{fused into columns0: 128*q_heads*tokens bytes are neither written nor read}}
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  // expected-remark @+1 {{fused into columns0: 4*q_heads*tokens bytes are neither written nor read}}
  %mean = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %group = kvc.reduce mean group %mean : tensor<?x?xf32> -> tensor<?x?xf32>
  %pool = kvc.pool max %group width(%width) : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans2: 1*kv_heads*tokens bytes are neither written nor read}}
  %k = kvc.topk %pool, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%w) : tensor<?x?xi1>
}

// -----

// A mean over all heads of a pooled value is another block's work: it goes into a
// second columns kernel, and the selection behind it.
// CHECK-LABEL: kvc.policy @heads_after_pool
// CHECK: kvc.kernel columns "columns0"
// CHECK: kvc.kernel spans "spans0"
// CHECK: kvc.pool
// CHECK: kvc.kernel columns "columns1"
// CHECK: kvc.reduce max heads
// CHECK: kvc.kernel spans "spans1"
// CHECK: kvc.count_digits
// CHECK: kvc.kernel spans "spans2"
// CHECK: kvc.kernel spans "spans3"
// CHECK: kvc.topk
kvc.policy @heads_after_pool {
  %w = arith.constant 5 : index
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %p = kvc.pool mean %n width(%w) : tensor<?x?xf32>
  %all = kvc.reduce max heads %p : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans3}}
  %k = kvc.topk %all, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// Norms behind the projection have a columns kernel without attention rows, in which
// nothing else walks all heads: here the second one does, so theirs is the third.
// CHECK-LABEL: kvc.policy @norms_beside_heads
// CHECK: kvc.kernel columns "columns0"
// CHECK: kvc.attention
// CHECK-NOT: kvc.projected_norm
// CHECK: kvc.kernel columns "columns1"
// CHECK: kvc.reduce max heads
// CHECK-NOT: kvc.projected_norm
// CHECK: kvc.kernel columns "columns2"
// CHECK: kvc.projected_norm l1
// CHECK-NOT: kvc.reduce {{.*}} heads
// CHECK: kvc.yield
kvc.policy @norms_beside_heads {
  %w = arith.constant 5 : index
  // expected-remark @+1 {{fused into columns0}}
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  %mean = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %p = kvc.pool mean %mean width(%w) : tensor<?x?xf32>
  %group = kvc.reduce mean group %p : tensor<?x?xf32> -> tensor<?x?xf32>
  %all = kvc.reduce max heads %group : tensor<?x?xf32> -> tensor<?x?xf32>
  // expected-remark @+1 {{fused into columns2}}
  %norms = kvc.projected_norm l1 : tensor<?x?xf32>
  // expected-remark @+1 {{fused into columns2}}
  %least = kvc.reduce min group %norms : tensor<?x?xf32> -> tensor<?x?xf32>
  %s = arith.mulf %all, %least : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans4}}
  %k = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// Without scores there is one spans kernel: positions are computed where they are
// needed.
// CHECK-LABEL: kvc.policy @no_scores
// CHECK-NOT: kvc.kernel columns
// CHECK: kvc.kernel spans "spans0"()
// CHECK: kvc.position
kvc.policy @no_scores {
  %four = arith.constant 4 : i32
  %t = kvc.position : tensor<?x?xi32>
  %end = kvc.broadcast %four : i32 to tensor<?x?xi32>
  %m = arith.cmpi ult, %t, %end : tensor<?x?xi32>
  kvc.keep %m : tensor<?x?xi1>
}

// -----

// Allocation over heads looks at stored rows of all heads, in a kernel of its own:
// seven launches with the log-sum-exp given. The first digits of a score are counted
// once for all that select by it.
// CHECK-LABEL: kvc.policy @adaptive
// CHECK: kvc.kernel columns "columns0"
// CHECK: %[[POOLED:.*]]:3 = kvc.kernel spans "spans0"
// CHECK: kvc.pool
// CHECK: kvc.count_digits
// CHECK: %[[ALL:.*]]:6 = kvc.kernel spans "spans1"(%[[POOLED]]#0, %[[POOLED]]#2)
// CHECK: kvc.list_candidates all_heads
// CHECK: %[[COUNT:.*]] = kvc.kernel sequence "sequence0"(%[[POOLED]]#0, %[[ALL]]#0,
// CHECK: kvc.allocate uniform
// CHECK: kvc.allocate_heads
// CHECK-NOT: kvc.count_digits
// CHECK: kvc.kernel spans "spans2"(%[[POOLED]]#0, %[[COUNT]], %[[POOLED]]#2)
// CHECK: kvc.list_candidates %
// CHECK: kvc.kernel spans "spans3"(%[[POOLED]]#0, %[[COUNT]],
// CHECK: kvc.topk
// CHECK: kvc.kernel compact
kvc.policy @adaptive {
  %w = arith.constant 5 : index
  %s = kvc.fraction "0.2"
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %p = kvc.pool mean %n width(%w) : tensor<?x?xf32>
  %b = kvc.allocate uniform : tensor<?xi32>
  %c = kvc.allocate_heads %p base(%b) safeguard(%s) : tensor<?x?xf32>, tensor<?xi32>
  // expected-remark @+1 {{fused into spans3}}
  %k = kvc.topk %p, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// What blocks add to is set to 0 by a kernel in front: one that does nothing else,
// where scores are computed from positions and there is no other. A pool of a pool is
// another kernel's work, since near tokens' values are computed again.
// CHECK-LABEL: kvc.policy @cleared
// CHECK: kvc.kernel spans "spans0"() : () -> () {
// CHECK-NEXT: kvc.yield
// CHECK: kvc.kernel spans "spans1"() : () -> (tensor<?x?xi16, {{.*}}>, tensor<?x2048xi32
// CHECK-NEXT: kvc.position
// CHECK: kvc.count_digits
// CHECK: kvc.kernel spans "spans2"
// CHECK: kvc.kernel spans "spans3"
// CHECK: kvc.store
// CHECK: kvc.topk
kvc.policy @cleared {
  %t = kvc.position : tensor<?x?xi32>
  %s = arith.sitofp %t : tensor<?x?xi32> to tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans3}}
  %k = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// CHECK-LABEL: kvc.policy @pool_of_pool
// CHECK: kvc.kernel spans "spans0"
// CHECK: kvc.pool mean
// CHECK-NOT: kvc.pool
// CHECK: kvc.kernel spans "spans1"
// CHECK: kvc.pool max
// CHECK: kvc.list_kept
kvc.policy @pool_of_pool {
  %w = arith.constant 5 : index
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %one = kvc.fill 1.0 : tensor<?x?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %p = kvc.pool mean %n width(%w) : tensor<?x?xf32>
  %q = arith.mulf %p, %n : tensor<?x?xf32>
  // expected-remark @+1 {{fused into spans1}}
  %r = kvc.pool max %q width(%w) : tensor<?x?xf32>
  // expected-remark @+1 {{fused into spans1}}
  %m = arith.cmpf ogt, %r, %one : tensor<?x?xf32>
  kvc.keep %m : tensor<?x?xi1>
}

// -----

// What rows carry is computed of every row, by a kernel in front of all that rank, which
// read it as they read any other. What costs nothing is made again where rows are gathered.
// CHECK-LABEL: kvc.policy @carried
// CHECK: kvc.kernel statistics every_row "statistics"
// CHECK: kvc.row_log_sum_exp last(
// CHECK: %[[MASS:.*]] = kvc.kernel columns every_row "carried"
// CHECK: kvc.row_state "mass"
// CHECK: kvc.yield protect_last(%{{.*}}) %{{.*}} : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
// CHECK: kvc.kernel columns "columns0"(%[[MASS]])
// CHECK: kvc.norm l2 key
// CHECK: kvc.yield protect_last(
// CHECK: kvc.kernel compact "compact"(%{{.*}}, %{{.*}}, %[[MASS]])
// CHECK: ^bb0(%{{.*}}, %{{.*}}, %[[ARG:.*]]: tensor<?x?xf32, #kvc.axes<kv_heads, past>>):
// CHECK: %[[AGE:.*]] = kvc.row_state "age"
// CHECK: %[[MORE:.*]] = arith.addf %[[AGE]], %{{.*}}
// CHECK: kvc.compact %{{.*}}, %{{.*}} carry("age" = %[[MORE]] : {{.*}}, "mass" = %[[ARG]] :
kvc.policy @carried {
  %w = arith.constant 4 : index
  %n = kvc.new_queries
  // expected-remark @+1 {{fused into carried}}
  %a = kvc.attention last(%n) : tensor<?x?x?xf32>
  // expected-remark @+1 {{fused into carried}}
  %x = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // expected-remark @+1 {{fused into carried}}
  %g = kvc.reduce mean group %x : tensor<?x?xf32> -> tensor<?x?xf32>
  %old = kvc.row_state "mass" : tensor<?x?xf32>
  %mass = arith.addf %old, %g : tensor<?x?xf32>
  %age = kvc.row_state "age" : tensor<?x?xf32>
  %one = kvc.fill 1.0 : tensor<?x?xf32>
  %more = arith.addf %age, %one : tensor<?x?xf32>
  // expected-remark @+1 {{fused into columns0}}
  %norm = kvc.norm l2 key : tensor<?x?xf32>
  %s = arith.subf %mass, %norm : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans2}}
  %k = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%w) carry("age" = %more : tensor<?x?xf32>, "mass" = %mass : tensor<?x?xf32>) : tensor<?x?xi1>
}

// -----

// Norms of marked tokens have a kernel of their own, behind the one that lists them;
// where query heads have marks of their own, columns kernels compute all.
// CHECK-LABEL: kvc.policy @marked
// CHECK: %[[KEYS:.*]]:2 = kvc.kernel columns "columns0"
// CHECK: arith.cmpf
// CHECK: %[[LIST:.*]]:2 = kvc.kernel spans "spans0"(%[[KEYS]]#0)
// CHECK: kvc.list
// CHECK: %[[NORMS:.*]] = kvc.kernel norms "norms0"(%[[KEYS]]#0, %[[LIST]]#0, %[[LIST]]#1) :
// CHECK: kvc.projected_norm l1 where(%{{.*}} : {{.*}}) list(%{{.*}}, %{{.*}} : {{.*}}) : tensor<?x?xf32, #kvc.axes<query_heads, past>>
// CHECK: %[[OWN:.*]] = kvc.kernel spans "spans1"(%[[NORMS]], %[[KEYS]]#1)
// CHECK: kvc.kernel columns "columns1"(%[[OWN]])
// CHECK: kvc.projected_norm l1 where(%{{.*}} : tensor<?x?xi1, #kvc.axes<query_heads, past>>) :
// CHECK: kvc.kernel spans "spans2"
kvc.policy @marked {
  %w = arith.constant 4 : index
  // expected-remark @+1 {{fused into columns0}}
  %x = kvc.norm l2 key : tensor<?x?xf32>
  %one = kvc.fill 1.0 : tensor<?x?xf32>
  %m = arith.cmpf ogt, %x, %one : tensor<?x?xf32>
  %n = kvc.projected_norm l1 where(%m : tensor<?x?xi1>) : tensor<?x?xf32>
  %own = arith.cmpf ogt, %n, %x : tensor<?x?xf32>
  // expected-remark @+1 {{fused into columns1}}
  %o = kvc.projected_norm l1 where(%own : tensor<?x?xi1>) : tensor<?x?xf32>
  %g = kvc.reduce mean group %o : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans4}}
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%w) : tensor<?x?xi1>
}

// -----

// What members have comes first, by kernels that have these in the place of tokens; what rows
// carry adds them up. What is made from that alone, row by row, is made with it, not in a
// kernel that walks the row.
// CHECK-LABEL: kvc.policy @members
// CHECK: %[[KEYS:.*]] = kvc.kernel keys "keys"()
// CHECK: kvc.member_keys
// CHECK: kvc.kernel statistics every_row of_members "statistics"() keys(%[[KEYS]])
// CHECK: %[[SUMS:.*]] = kvc.kernel columns every_row of_members "members"() lse(%{{.*}}) keys(%[[KEYS]])
// CHECK: kvc.yield %{{.*}} : tensor<?x?xf32, #kvc.axes<kv_heads, member>>
// CHECK: %[[MADE:.*]]:2 = kvc.kernel columns every_row "carried"(%[[SUMS]])
// CHECK: kvc.reduce sum members
// CHECK: arith.mulf
// CHECK: kvc.yield %{{.*}}, %{{.*}} : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
// CHECK: kvc.kernel spans "spans0"(%[[MADE]]#
kvc.policy @members {
  %n = kvc.new_queries
  // expected-remark @+1 {{fused into members}}
  %a = kvc.attention last(%n) members : tensor<?x?x?xf32>
  // expected-remark @+1 {{fused into members}}
  %x = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %x : tensor<?x?xf32> -> tensor<?x?xf32>
  // expected-remark @+1 {{fused into carried}}
  %d = kvc.reduce sum members %g : tensor<?x?xf32> -> tensor<?x?xf32>
  %old = kvc.row_state "mass" : tensor<?x?xf32>
  %mass = arith.addf %old, %d : tensor<?x?xf32>
  %square = arith.mulf %mass, %mass : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans2}}
  %k = kvc.topk %square, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k carry("mass" = %mass : tensor<?x?xf32>) : tensor<?x?xi1>
}

// What rows carry is made of every row: such norms are not listed.
// CHECK-LABEL: kvc.policy @carried_norms
// CHECK: kvc.kernel columns every_row "carried"
// CHECK: kvc.projected_norm l1 where(%{{.*}} : {{.*}}) : tensor
// CHECK-NOT: kvc.list %
// CHECK: kvc.done
kvc.policy @carried_norms {
  %w = arith.constant 4 : index
  // expected-remark @+1 {{fused into carried}}
  %x = kvc.norm l2 key : tensor<?x?xf32>
  %one = kvc.fill 1.0 : tensor<?x?xf32>
  // expected-remark @+1 {{fused into carried}}
  %m = arith.cmpf ogt, %x, %one : tensor<?x?xf32>
  // expected-remark @+1 {{fused into carried}}
  %n = kvc.projected_norm l1 where(%m : tensor<?x?xi1>) : tensor<?x?xf32>
  %g = kvc.reduce mean group %n : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans2}}
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%w) carry("norm" = %g : tensor<?x?xf32>) : tensor<?x?xi1>
}

// -----

// A norm that only scales the vectors themselves is made again by whoever reduces these:
// no kernel stores it. One that is a score, too, is stored.
// CHECK-LABEL: kvc.policy @scaled
// CHECK: %[[C:.*]] = kvc.kernel columns "columns0"() : () -> tensor<?x?xf32
// CHECK: kvc.norm l2 key
// CHECK: %[[P:.*]] = kvc.kernel parts "parts0"() : () -> tensor<?x?x?xf32
// CHECK: kvc.norm l1 value
// CHECK: kvc.reduce_part
// CHECK: kvc.kernel rows "rows0"(%[[P]])
// CHECK: kvc.kernel columns "columns1"
// CHECK: kvc.norm l1 value
// CHECK: kvc.reduce sum channels
// CHECK-NOT: kvc.norm
// CHECK: kvc.done
kvc.policy @scaled {
  %v = kvc.vectors value : tensor<?x?x?xf32>
  %n = kvc.norm l1 value : tensor<?x?xf32>
  %b = kvc.broadcast %n along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %u = arith.divf %v, %b : tensor<?x?x?xf32>
  %m = kvc.reduce mean tokens %u : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %c = kvc.broadcast %m : tensor<?x?xf32> to tensor<?x?x?xf32>
  %x = arith.mulf %u, %c : tensor<?x?x?xf32>
  // expected-remark @+1 {{fused into columns1}}
  %d = kvc.reduce sum channels %x : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // expected-remark @+1 {{fused into columns0}}
  %l = kvc.norm l2 key : tensor<?x?xf32>
  %k = kvc.vectors key : tensor<?x?x?xf32>
  %a = kvc.broadcast %l along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %y = arith.divf %k, %a : tensor<?x?x?xf32>
  // expected-remark @+1 {{fused into columns0}}
  %e = kvc.reduce max channels %y : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %f = arith.addf %e, %l : tensor<?x?xf32>
  %s = arith.addf %d, %f : tensor<?x?xf32>
  %t = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans2}}
  %o = kvc.topk %s, %t : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %o : tensor<?x?xi1>
}

// -----

// Norms behind the projection have a columns kernel without attention rows.
// CHECK-LABEL: kvc.policy @norms_apart
// CHECK: kvc.kernel columns "columns0"
// CHECK: kvc.attention
// CHECK-NOT: kvc.projected_norm
// CHECK: kvc.kernel columns "columns1"
// CHECK-NOT: kvc.attention
// CHECK: kvc.projected_norm l1 :
// CHECK: kvc.done
kvc.policy @norms_apart {
  %w = arith.constant 5 : index
  // expected-remark @+1 {{fused into columns0}}
  %a = kvc.attention last(%w) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // expected-remark @+1 {{fused into columns1}}
  %n = kvc.projected_norm l1 : tensor<?x?xf32>
  // expected-remark @+1 {{fused into columns1}}
  %p = arith.mulf %m, %n : tensor<?x?xf32>
  %g = kvc.reduce mean group %p : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans2}}
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%w) : tensor<?x?xi1>
}

// -----

// One row for all heads is given to each head where that is read: by spans. The columns
// kernel has the parts of a deviation, though it walks all heads.
// CHECK-LABEL: kvc.policy @row_of_all_heads_by_spans
// CHECK: kvc.kernel columns "columns0"
// CHECK: kvc.deviation_part
// CHECK-NOT: kvc.kernel rows
// CHECK: kvc.kernel spans "spans0"({{.*}}tensor<1x?xf32, #kvc.axes<one_head, past>>
// CHECK: kvc.combine_deviations
// CHECK: kvc.broadcast {{.*}}one_head, past>> to tensor<?x?xf32, #kvc.axes<kv_heads, past>>
// CHECK: kvc.count_digits
kvc.policy @row_of_all_heads_by_spans {
  %w = arith.constant 8 : index
  // expected-remark @+1 {{fused into columns0}}
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  // expected-remark @+1 {{fused into columns0}}
  %mean = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %own = kvc.reduce mean group %mean : tensor<?x?xf32> -> tensor<?x?xf32>
  // expected-remark @+1 {{fused into columns0}}
  %most = kvc.reduce max heads %rows : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %all = kvc.reduce mean queries %most : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %dev = kvc.reduce std tokens %own : tensor<?x?xf32> -> tensor<?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %devs = kvc.broadcast %dev : tensor<?xf32> to tensor<?x?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %part = arith.mulf %own, %devs : tensor<?x?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %sum = arith.addf %part, %all : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans2}}
  %k = kvc.topk %sum, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%w) : tensor<?x?xi1>
}

// -----

// Which heads have the lowest deviation is asked in the kernel that combines its parts.
// CHECK-LABEL: kvc.policy @heads_by_deviation
// CHECK: kvc.kernel columns "columns0"
// CHECK: kvc.deviation_part
// CHECK: kvc.kernel spans "spans0"
// CHECK: %[[D:.*]] = kvc.combine_deviations
// CHECK: kvc.select_heads lowest %[[D]]
// CHECK: kvc.count_digits
// CHECK: kvc.kernel spans "spans1"
kvc.policy @heads_by_deviation {
  %w = arith.constant 8 : index
  // expected-remark @+1 {{fused into columns0}}
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  // expected-remark @+1 {{fused into columns0}}
  %mean = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %own = kvc.reduce mean group %mean : tensor<?x?xf32> -> tensor<?x?xf32>
  %dev = kvc.reduce std tokens %own : tensor<?x?xf32> -> tensor<?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %few = kvc.select_heads lowest %dev count(%w) : tensor<?xf32> -> tensor<?x?xi1>
  %inf = kvc.fill 1.0 : tensor<?x?xf32>
  %p = arith.select %few, %inf, %own : tensor<?x?xi1>, tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans2}}
  %k = kvc.topk %p, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%w) : tensor<?x?xi1>
}

// -----

// And by whole rows.
// CHECK-LABEL: kvc.policy @row_of_all_heads_by_rows
// CHECK: kvc.kernel columns "columns0"
// CHECK: kvc.kernel rows "rows0"({{.*}}) : ({{.*}}tensor<1x?xf32, #kvc.axes<one_head, past>>
// CHECK: kvc.broadcast {{.*}}one_head, past>> to tensor<?x?xf32, #kvc.axes<kv_heads, past>>
// CHECK: kvc.reduce std tokens
kvc.policy @row_of_all_heads_by_rows {
  %w = arith.constant 8 : index
  // expected-remark @+1 {{fused into columns0}}
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  // expected-remark @+1 {{fused into columns0}}
  %mean = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %own = kvc.reduce mean group %mean : tensor<?x?xf32> -> tensor<?x?xf32>
  // expected-remark @+1 {{fused into columns0}}
  %most = kvc.reduce max heads %rows : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %all = kvc.reduce mean queries %most : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // expected-remark @+1 {{fused into rows0}}
  %apart = arith.subf %own, %all : tensor<?x?xf32>
  %dev = kvc.reduce std tokens %apart : tensor<?x?xf32> -> tensor<?xf32>
  // expected-remark @+1 {{fused into rows0}}
  %devs = kvc.broadcast %dev : tensor<?xf32> to tensor<?x?xf32>
  %part = arith.mulf %own, %devs : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans2}}
  %k = kvc.topk %part, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%w) : tensor<?x?xi1>
}

// -----

// A maximum over tokens and the sum of exponentials below it are made of the same parts,
// by the columns kernel that has the scores; the next kernel has both.
// CHECK-LABEL: kvc.policy @softmax_over_tokens
// CHECK: %[[C:.*]]:4 = kvc.kernel columns "columns0"
// CHECK: %[[N:.*]] = kvc.norm l2 key
// CHECK: kvc.reduce_part min %[[N]]
// CHECK: %[[M:.*]], %[[L:.*]] = kvc.exp_sum_part %[[N]]
// CHECK-NOT: math.exp
// CHECK: kvc.kernel spans "spans0"(%[[C]]
// CHECK: kvc.combine_parts min
// CHECK: kvc.combine_exp_sums
// CHECK: math.exp
// CHECK: kvc.count_digits
// CHECK: kvc.kernel spans "spans1"
// CHECK: kvc.kernel spans "spans2"
// CHECK: kvc.kernel compact
kvc.policy @softmax_over_tokens {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %least = kvc.reduce min tokens %n : tensor<?x?xf32> -> tensor<?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %lb = kvc.broadcast %least : tensor<?xf32> to tensor<?x?xf32>
  %m = kvc.reduce max tokens %n : tensor<?x?xf32> -> tensor<?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %b = kvc.broadcast %m : tensor<?xf32> to tensor<?x?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %d = arith.subf %n, %b : tensor<?x?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %e = math.exp %d : tensor<?x?xf32>
  %t = kvc.reduce sum tokens %e : tensor<?x?xf32> -> tensor<?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %tb = kvc.broadcast %t : tensor<?xf32> to tensor<?x?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %s = arith.divf %e, %tb : tensor<?x?xf32>
  %x = arith.addf %s, %lb : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans2}}
  %k = kvc.topk %x, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// Where a columns kernel pools rows, its tiles overlap: parts are made by spans.
// CHECK-LABEL: kvc.policy @parts_beside_pooled_rows
// CHECK: kvc.kernel columns "columns0"
// CHECK-NOT: kvc.reduce_part
// CHECK: kvc.kernel spans "spans0"
// CHECK: kvc.reduce_part max
// CHECK: kvc.kernel spans "spans1"
// CHECK: kvc.combine_parts max
kvc.policy @parts_beside_pooled_rows {
  %w = arith.constant 4 : index
  %width = arith.constant 3 : index
  // expected-remark @+1 {{fused into columns0}}
  %a = kvc.attention last(%w) logits : tensor<?x?x?xf32>
  // expected-remark @+1 {{fused into columns0}}
  %p = kvc.pool mean %a width(%width) : tensor<?x?x?xf32>
  // expected-remark @+1 {{fused into columns0}}
  %r = kvc.reduce mean queries %p : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %r : tensor<?x?xf32> -> tensor<?x?xf32>
  %m = kvc.reduce max tokens %g : tensor<?x?xf32> -> tensor<?xf32>
  // expected-remark @+1 {{fused into spans1}}
  %b = kvc.broadcast %m : tensor<?xf32> to tensor<?x?xf32>
  %d = arith.subf %g, %b : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans3}}
  %k = kvc.topk %d, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// A token is another row in each head of a cache of rows: what a reduction over heads
// joins is walked by a columns kernel, though it could be computed anywhere.
// CHECK-LABEL: kvc.policy @row_numbers_of_all_heads
// CHECK: kvc.kernel columns "columns0"
// CHECK: kvc.reduce max heads
// CHECK: kvc.kernel spans "spans0"
// CHECK-NOT: kvc.reduce
kvc.policy @row_numbers_of_all_heads {
  %p = kvc.position row : tensor<?x?xi32>
  %f = arith.sitofp %p : tensor<?x?xi32> to tensor<?x?xf32>
  %m = kvc.reduce max heads %f : tensor<?x?xf32> -> tensor<?x?xf32>
  // expected-remark @+1 {{fused into spans0}}
  %d = arith.subf %m, %f : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into spans2}}
  %k = kvc.topk %d, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}
