// RUN: kvc-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes))" | FileCheck %s

// Key norms are per KV head, weights per query head: the norm is repeated.
// CHECK-LABEL: kvc.policy @joins_heads
kvc.policy @joins_heads {
  %w = arith.constant 16 : index
  // CHECK: kvc.attention {{.*}} : tensor<?x16x?xf32, #kvc.axes<query_heads, query, past>>
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  // CHECK: %[[MEAN:.*]] = kvc.reduce mean queries {{.*}} -> tensor<?x?xf32, #kvc.axes<query_heads, past>>
  %mean = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
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

// SegmentOp C3
kvc.policy @segment_of_rows {
  %w = arith.constant 16 : index
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  // expected-error @+1 {{needs a value per token or per channel, got one per query}}
  %x = kvc.segment max %rows length(%w) from(%w) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %x : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %m : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
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
  %mean = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
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
  %mean = kvc.reduce mean queries %sum : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %mean : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

kvc.policy @window_and_all_queries {
  %w = arith.constant 16 : index
  %t = kvc.length
  %a = kvc.attention last(%w) : tensor<?x?x?xf32>
  %b = kvc.attention last(%t) : tensor<?x?x?xf32>
  // expected-error @+1 {{operands must have the same window, got 16 and all queries}}
  %sum = arith.addf %a, %b : tensor<?x?x?xf32>
  %all = kvc.fill 0.0 : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %all, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// ReduceOp C6: All queries' rows cannot wait until all heads have been seen.
kvc.policy @all_heads_of_all_queries {
  %t = kvc.length
  %a = kvc.attention last(%t) : tensor<?x?x?xf32>
  // expected-error @+1 {{rows of all queries must be reduced over queries before they are reduced over all heads}}
  %m = kvc.reduce max heads %a : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %s = kvc.reduce sum queries %m : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

kvc.policy @rows_from_nothing {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %r = kvc.broadcast %n : tensor<?x?xf32> to tensor<?x?x?xf32>
  // expected-error @+1 {{rows must come from kvc.attention, got a value that is repeated along the window}}
  %s = kvc.reduce sum queries %r : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// ReduceOp C4
kvc.policy @window_of_channels {
  %v = kvc.vectors key : tensor<?x?x?xf32>
  // expected-error @+1 {{over queries needs a value per query, got one per channel}}
  %s = kvc.reduce sum queries %v : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

kvc.policy @rows_plus_channels {
  %w = arith.constant 16 : index
  %a = kvc.attention last(%w) : tensor<?x?x?xf32>
  %v = kvc.vectors key : tensor<?x?x?xf32>
  // expected-error @+1 {{operands must have the same axes, got #kvc.axes<query_heads, query, past> and #kvc.axes<kv_heads, channel, past>}}
  %sum = arith.addf %a, %v : tensor<?x?x?xf32>
  %s = kvc.reduce sum queries %sum : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// SelectHeadsOp C1
kvc.policy @select_query_heads {
  %w = arith.constant 16 : index
  %a = kvc.attention last(%w) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %s = kvc.reduce std tokens %m : tensor<?x?xf32> -> tensor<?xf32>
  // expected-error @+1 {{value must be per KV head, got a value per query head}}
  %h = kvc.select_heads lowest %s count(%w) : tensor<?xf32> -> tensor<?x?xi1>
  kvc.keep %h : tensor<?x?xi1>
}

// -----

// CountMassOp C1
kvc.policy @mass_of_query_heads {
  %w = arith.constant 16 : index
  %rest = arith.constant 0.1 : f32
  %a = kvc.attention last(%w) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // expected-error @+1 {{score must be per KV head, got a value per query head; reduce it over the group first}}
  %c = kvc.count_mass %m all_but(%rest) : tensor<?x?xf32> -> tensor<?xi32>
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// KeepOp C1
kvc.policy @merge_by_query_heads {
  %w = arith.constant 16 : index
  %tau = arith.constant 0.5 : f32
  %a = kvc.attention last(%w) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %d = kvc.nearest %k in %k of key at_least(%tau) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
  // expected-error @+1 {{the weight of merge must be per KV head, got a value per query head}}
  kvc.keep %k merge(%d, %m : tensor<?x?xi32>, tensor<?x?xf32>) protect_last(%w) : tensor<?x?xi1>
}

// -----

kvc.policy @vector_as_scores {
  %v = kvc.vectors key : tensor<?x?x?xf32>
  %m = kvc.reduce mean tokens %v : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-error @+1 {{a vector of channels must be repeated along tokens (kvc.broadcast) before it is used by kvc.topk}}
  %k = kvc.topk %m, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// KeepOp C1: which query head of the group would decide?
kvc.policy @mask_per_query_head {
  %w = arith.constant 16 : index
  %a = kvc.attention last(%w) : tensor<?x?x?xf32>
  %y = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %e = kvc.fill 0.25 : tensor<?x?xf32>
  %m = arith.cmpf ogt, %y, %e : tensor<?x?xf32>
  // expected-error @+1 {{the mask must be per KV head, got a value per query head}}
  kvc.keep %m : tensor<?x?xi1>
}

// -----

// NearestOp C1
kvc.policy @sources_per_query_head {
  %w = arith.constant 16 : index
  %a = kvc.attention last(%w) : tensor<?x?x?xf32>
  %y = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %e = kvc.fill 0.25 : tensor<?x?xf32>
  %m = arith.cmpf ogt, %y, %e : tensor<?x?xf32>
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %tau = arith.constant 0.5 : f32
  // expected-error @+1 {{sources must be per KV head, got a value per query head}}
  %d = kvc.nearest %m in %k of key at_least(%tau) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
  kvc.keep %k merge(%d, %n : tensor<?x?xi32>, tensor<?x?xf32>) : tensor<?x?xi1>
}
