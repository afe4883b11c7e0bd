// RUN: kvc-opt %s | kvc-opt | FileCheck %s
// Every op's example of its description is among them.
// RUN: kvc-opt %s -o %t.mlir
// RUN: %python %inputs/examples.py %S/../../dialect/KVCKernelOps.td %t.mlir
// RUN: kvc-opt %s --mlir-print-op-generic | kvc-opt | FileCheck %s

// What is written here holds together: it passes the checks of level fused, and
// every kernel but the last has its buffers numbered.
// RUN: kvc-opt %s --pass-pipeline="builtin.module(kvc.policy(kvc-check-kernels,kvc-plan-scratch,kvc-write-plan))" | FileCheck %s --check-prefix=PLAN
// PLAN: #kvc.plan<queries = 32, protect_last = 32, lse = 1, scores = 10 of kv_heads, skipped_with_lse = [0, 1], phases = [score, score, score, score, score, score, prepare, score, score, score, score, score, score, score, select, compact],

!partial = tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>>
!lse     = tensor<?x32xf32, #kvc.axes<query_heads, query>>
!lses    = tensor<?x?xf32, #kvc.axes<query_heads, query>>
!rows    = tensor<?x32x?xf32, #kvc.axes<query_heads, query, past>>
!allrows = tensor<?x?x?xf32, #kvc.axes<query_heads, query, past>>
!keys    = tensor<?x?x?xf32, #kvc.axes<kv_heads, member, channel>>
!matrix  = tensor<?x?x?xf32, #kvc.axes<query_heads, channel, channel>>
!sums    = tensor<?x?x2xf32, #kvc.axes<query_heads, channel, pair>>
!qscore  = tensor<?x?xf32, #kvc.axes<query_heads, past>>
!score   = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!scores  = tensor<1x?xf32, #kvc.axes<one_head, past>>
!marks   = tensor<1x?xi1, #kvc.axes<one_head, past>>
!mask    = tensor<?x?xi1, #kvc.axes<kv_heads, past>>
!tokens  = tensor<?x?xi32, #kvc.axes<kv_heads, past>>
!list    = tensor<?x?xi32, #kvc.axes<kv_heads, kept>>
!count   = tensor<?xi32, #kvc.axes<kv_heads>>
!bins    = tensor<?x2048xi32, #kvc.axes<kv_heads, bin>>
!prefixes = tensor<?x?xi16, #kvc.axes<kv_heads, past>>
!above   = tensor<?x?xi32, #kvc.axes<kv_heads, split>>
!place   = tensor<?x2xi32, #kvc.axes<kv_heads, pair>>

// Every op of level fused, in its own syntax.
// CHECK-LABEL: kvc.policy @every_op
kvc.policy @every_op {
  // CHECK: kvc.kernel statistics "statistics"() :
  %0 = kvc.kernel statistics "statistics"() : () -> !partial {
    %w = arith.constant 32 : index
    // CHECK: kvc.row_statistics last(%{{.*}}) : tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>>
    %p = kvc.row_statistics last(%w) : !partial
    // CHECK: kvc.yield protect_last(%{{.*}}) %{{.*}} :
    kvc.yield protect_last(%w) %p : !partial
  }
  // CHECK: %[[LSE:.*]] = kvc.kernel combine "combine"(%{{.*}}) :
  %1 = kvc.kernel combine "combine"(%0) : (!partial) -> !lse {
  ^bb0(%p: !partial):
    // CHECK: kvc.combine_statistics %{{.*}} : tensor<?x32x?x2xf32, {{.*}}> -> tensor<?x32xf32, #kvc.axes<query_heads, query>>
    %l = kvc.combine_statistics %p : !partial -> !lse
    kvc.yield %l : !lse
  }
  // CHECK: kvc.kernel columns "columns0"() lse(%[[LSE]]) : (tensor<?x32xf32, #kvc.axes<query_heads, query>>) ->
  %sums = kvc.kernel columns "columns0"() lse(%1) : (!lse) -> !qscore {
  ^bb0(%l: !lse):
    %w = arith.constant 32 : index
    %a = kvc.attention last(%w) lse(%l : !lse) : !rows
    %q = kvc.reduce sum queries %a : !rows -> !qscore
    kvc.yield protect_last(%w) %q : !qscore
  }
  %2 = kvc.kernel columns "columns2"() lse(%1) : (!lse) -> !score {
  ^bb0(%l: !lse):
    %w = arith.constant 32 : index
    // CHECK: kvc.attention last(%{{.*}}) lse(%{{.*}} : tensor<?x32xf32, #kvc.axes<query_heads, query>>) :
    %a = kvc.attention last(%w) lse(%l : !lse) : !rows
    // CHECK: kvc.reduce sum queries
    %q = kvc.reduce sum queries %a : !rows -> !qscore
    %g = kvc.reduce max group %q : !qscore -> !score
    kvc.yield protect_last(%w) %g : !score
  }
  %3 = kvc.kernel statistics "all"() : () -> !lses {
    // CHECK: kvc.row_log_sum_exp : tensor<?x?xf32, #kvc.axes<query_heads, query>>
    %l = kvc.row_log_sum_exp : !lses
    %w = arith.constant 32 : index
    kvc.yield protect_last(%w) %l : !lses
  }
  // CHECK: kvc.kernel keys "keys"()
  %keys = kvc.kernel keys "keys"() : () -> !keys {
    // CHECK: kvc.member_keys : tensor<?x?x?xf32, #kvc.axes<kv_heads, member, channel>>
    %k = kvc.member_keys : !keys
    %w = arith.constant 32 : index
    kvc.yield protect_last(%w) %k : !keys
  }
  // CHECK: %[[GRAM:.*]]:2 = kvc.kernel gram "gram"()
  %4:2 = kvc.kernel gram "gram"() : () -> (!matrix, !sums) {
    // CHECK: kvc.gram : tensor<?x?x?xf32, #kvc.axes<query_heads, channel, channel>>, tensor<?x?x2xf32, #kvc.axes<query_heads, channel, pair>>
    %m, %s = kvc.gram : !matrix, !sums
    kvc.yield %m, %s : !matrix, !sums
  }
  // CHECK: kvc.kernel columns "columns1"(%{{.*}}) gram(%[[GRAM]]#0, %[[GRAM]]#1) :
  %5:2 = kvc.kernel columns "columns1"(%2) gram(%4#0, %4#1) : (!score, !matrix, !sums) -> (!score, !score) {
  ^bb0(%x: !score, %m: !matrix, %s: !sums):
    %w = arith.constant 32 : index
    // CHECK: kvc.projected_norm l1 bound gram(%{{.*}}, %{{.*}} : tensor<?x?x?xf32, {{.*}}>, tensor<?x?x2xf32, {{.*}}>) :
    %n = kvc.projected_norm l1 bound gram(%m, %s : !matrix, !sums) : !qscore
    %g = kvc.reduce max group %n : !qscore -> !score
    %b = arith.mulf %g, %x : !score
    %k = kvc.norm l2 raw_key : !score
    kvc.yield protect_last(%w) %b, %k : !score, !score
  }
  // CHECK: %[[SPANS:.*]]:3 = kvc.kernel spans "spans0"
  %6:3 = kvc.kernel spans "spans0"(%5#0) : (!score) -> (!score, !bins, !prefixes) {
  ^bb0(%x: !score):
    %w = arith.constant 32 : index
    %width = arith.constant 7 : index
    %p = kvc.pool max %x width(%width) : !score
    // CHECK: kvc.count_digits %{{.*}} : tensor<?x?xf32, {{.*}}> -> tensor<?x2048xi32, #kvc.axes<kv_heads, bin>>
    %d = kvc.count_digits %p : !score -> !bins
    // CHECK: kvc.key_prefix %{{.*}} : tensor<?x?xf32, {{.*}}> -> tensor<?x?xi16, #kvc.axes<kv_heads, past>>
    %x16 = kvc.key_prefix %p : !score -> !prefixes
    kvc.yield protect_last(%w) %p, %d, %x16 : !score, !bins, !prefixes
  }
  // CHECK: kvc.kernel spans "spans1"(%[[SPANS]]#0, %[[SPANS]]#1)
  %7:6 = kvc.kernel spans "spans1"(%6#0, %6#1) : (!score, !bins) -> (!count, !bins, !above, !place, !list, !list) {
  ^bb0(%x: !score, %d: !bins):
    %w = arith.constant 32 : index
    %c = kvc.allocate uniform : !count
    // CHECK: kvc.list_candidates %{{.*}}, %{{.*}} digits(%{{.*}}) : {{.*}} -> tensor<?xi32, {{.*}}>, tensor<?x2048xi32, {{.*}}>, tensor<?x?xi32, #kvc.axes<kv_heads, split>>, tensor<?x2xi32, {{.*}}>, tensor<?x?xi32, {{.*}}>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>
    %n, %e, %a, %p, %t, %k = kvc.list_candidates %x, %c digits(%d) : !score, !count, !bins -> !count, !bins, !above, !place, !list, !list
    kvc.yield protect_last(%w) %n, %e, %a, %p, %t, %k : !count, !bins, !above, !place, !list, !list
  }
  %all:6 = kvc.kernel spans "spans_of_all"(%6#0, %6#1) : (!score, !bins) -> (!count, !bins, !above, !place, !list, !list) {
  ^bb0(%x: !score, %d: !bins):
    %w = arith.constant 32 : index
    %c = kvc.allocate uniform : !count
    // CHECK: kvc.list_candidates all_heads %{{.*}}, %{{.*}} digits(%{{.*}}) :
    %n, %e, %a, %p, %t, %k = kvc.list_candidates all_heads %x, %c digits(%d) : !score, !count, !bins -> !count, !bins, !above, !place, !list, !list
    kvc.yield protect_last(%w) %n, %e, %a, %p, %t, %k : !count, !bins, !above, !place, !list, !list
  }
  %share = kvc.kernel sequence "sequence0"(%6#0, %all#0, %all#1, %all#2, %all#3, %all#4, %all#5, %6#1) : (!score, !count, !bins, !above, !place, !list, !list, !bins) -> !count {
  ^bb0(%x: !score, %n: !count, %e: !bins, %a: !above, %p: !place, %t: !list, %k: !list, %d: !bins):
    %w = arith.constant 32 : index
    %f = kvc.fraction "0.2"
    %c = kvc.allocate uniform : !count
    // CHECK: kvc.allocate_heads %{{.*}} base(%{{.*}}) safeguard(%{{.*}}) candidates(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?xi32, {{.*}}>) :
    %h = kvc.allocate_heads %x base(%c) safeguard(%f) candidates(%n, %e, %a, %p, %t, %k, %d : !count, !bins, !above, !place, !list, !list, !bins) : !score, !count
    kvc.yield protect_last(%w) %h : !count
  }
  %lists:5 = kvc.kernel spans "spans2"(%6#0, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %6#1, %6#2) : (!score, !count, !bins, !above, !place, !list, !list, !bins, !prefixes) -> (!mask, !list, !count, !list, !count) {
  ^bb0(%x: !score, %n: !count, %e: !bins, %a: !above, %p: !place, %t: !list, %k: !list, %d: !bins, %x16: !prefixes):
    %w = arith.constant 32 : index
    %c = kvc.allocate uniform : !count
    // CHECK: kvc.topk %{{.*}}, %{{.*}} candidates(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?xi32, {{.*}}>) :
    %m = kvc.topk %x, %c candidates(%n, %e, %a, %p, %t, %k, %d, %x16 : !count, !bins, !above, !place, !list, !list, !bins, !prefixes) : !score, !count -> !mask
    // CHECK: kvc.store %{{.*}} : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
    %s = kvc.store %x : !score
    // CHECK: kvc.list %{{.*}} : tensor<?x?xi1, {{.*}}> -> tensor<?x?xi32, {{.*}}>, tensor<?xi32, #kvc.axes<kv_heads>>
    %i, %o = kvc.list %m : !mask -> !list, !count
    %j, %q = kvc.list %m : !mask -> !list, !count
    kvc.yield protect_last(%w) %m, %i, %o, %j, %q : !mask, !list, !count, !list, !count
  }
  %near = kvc.kernel nearest "nearest0"(%lists#0, %lists#1, %lists#2, %lists#3, %lists#4, %5#1) : (!mask, !list, !count, !list, !count, !score) -> !tokens {
  ^bb0(%m: !mask, %i: !list, %n: !count, %j: !list, %o: !count, %k: !score):
    %w = arith.constant 32 : index
    %tau = arith.constant 0.5 : f32
    // CHECK: kvc.nearest %{{.*}} in %{{.*}} of raw_key at_least(%{{.*}}) lists(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : {{.*}}) norms(%{{.*}} : {{.*}}) :
    %d = kvc.nearest %m in %m of raw_key at_least(%tau) lists(%i, %n, %j, %o : !list, !count, !list, !count) norms(%k : !score) : !mask, !mask -> !tokens
    kvc.yield protect_last(%w) %d : !tokens
  }
  // CHECK: kvc.kernel rows "rows0"
  %8:3 = kvc.kernel rows "rows0"(%lists#0, %near) : (!mask, !tokens) -> (!list, !list, !count) {
  ^bb0(%m: !mask, %d: !tokens):
    %w = arith.constant 32 : index
    // CHECK: kvc.list_kept %{{.*}} : tensor<?x?xi1, {{.*}}> -> tensor<?x?xi32, {{.*}}>, tensor<?xi32, {{.*}}>
    %i, %n = kvc.list_kept %m : !mask -> !list, !count
    // CHECK: kvc.list_members %{{.*}}, %{{.*}} share_positions :
    %t = kvc.list_members %m, %d share_positions : !mask, !tokens -> !list
    kvc.yield protect_last(%w) %t, %i, %n : !list, !list, !count
  }
  // CHECK: kvc.kernel compact "compact"
  kvc.kernel compact "compact"(%8#0, %2) : (!list, !score) -> () {
  ^bb0(%t: !list, %x: !score):
    // CHECK: kvc.merge %{{.*}} weight(%{{.*}}) :
    kvc.merge %t weight(%x) : !list, !score
    %w = arith.constant 32 : index
    kvc.yield protect_last(%w)
  }
  // CHECK: kvc.done
  kvc.done
}

// The gather in place of a merge, scratch of a kernel's own, and a plan.
// CHECK-LABEL: kvc.policy @gather attributes {plan = #kvc.plan<queries = 0, protect_last = unknown, lse = none, scores = 0 of one_head, skipped_with_lse = [0, 2], phases = [score, select, compact], buffers = [0 to 2 : tensor<1x?xf32, #kvc.axes<one_head, past>>, 1 to 1 per_block model : tensor<?xi32, #kvc.axes<kv_heads>>]>} {
kvc.policy @gather attributes {plan = #kvc.plan<queries = 0, protect_last = unknown, lse = none, scores = 0 of one_head, skipped_with_lse = [0, 2], phases = [score, select, compact], buffers = [0 to 2 : !scores, 1 to 1 per_block model : !count]>} {
  // CHECK: kvc.kernel columns "columns0"() attributes {buffers = [#kvc.buffer<0, live = 0 to 2>]} :
  %0 = kvc.kernel columns "columns0"() attributes {buffers = [#kvc.buffer<0, live = 0 to 2>]} : () -> !scores {
    %k = kvc.norm l2 key : !score
    %n = kvc.reduce sum heads %k : !score -> !scores
    kvc.yield %n : !scores
  }
  %1:2 = kvc.kernel spans "spans0"(%0) : (!scores) -> (!list, !count) {
  ^bb0(%x: !scores):
    // CHECK: kvc.store %{{.*}} {buffer = #kvc.buffer<1, live = 1 to 1>} :
    %s = kvc.store %x {buffer = #kvc.buffer<1, live = 1 to 1>} : !scores
    %one = arith.constant 1.0 : f32
    %o = kvc.broadcast %one : f32 to !scores
    %m = arith.cmpf ogt, %s, %o : !scores
    %i, %n = kvc.list_kept %m : !marks -> !list, !count
    kvc.yield %i, %n : !list, !count
  }
  kvc.kernel compact "compact"(%1#0, %1#1) : (!list, !count) -> () {
  ^bb0(%i: !list, %n: !count):
    // CHECK: kvc.compact %{{.*}}, %{{.*}} : tensor<?x?xi32, {{.*}}>, tensor<?xi32, {{.*}}>
    kvc.compact %i, %n : !list, !count
    kvc.yield
  }
  kvc.done
}

!spans = tensor<?x?xf32, #kvc.axes<kv_heads, split>>
!heads = tensor<?xf32, #kvc.axes<kv_heads>>

// And span by span: numbers of heads.
// CHECK-LABEL: kvc.policy @spans
kvc.policy @spans {
  %norm = kvc.kernel columns "columns0"() : () -> !score {
    %n = kvc.norm l2 key : !score
    kvc.yield %n : !score
  }
  // CHECK: kvc.kernel spans "spans0"(%
  %0 = kvc.kernel spans "spans0"(%norm) : (!score) -> !spans {
  ^bb0(%s: !score):
    // CHECK: kvc.reduce_part max %{{.*}} : tensor<?x?xf32, #kvc.axes<kv_heads, past>> -> tensor<?x?xf32, #kvc.axes<kv_heads, split>>
    %p = kvc.reduce_part max %s : !score -> !spans
    kvc.yield %p : !spans
  }
  %1 = kvc.kernel spans "spans1"(%0) : (!spans) -> !heads {
  ^bb0(%p: !spans):
    // CHECK: kvc.combine_parts max %{{.*}} : tensor<?x?xf32, #kvc.axes<kv_heads, split>> -> tensor<?xf32, #kvc.axes<kv_heads>>
    %m = kvc.combine_parts max %p : !spans -> !heads
    kvc.yield %m : !heads
  }
  %2:2 = kvc.kernel spans "spans2"() : () -> (!list, !count) {
    %true = arith.constant true
    %all = kvc.broadcast %true : i1 to !mask
    %i, %n = kvc.list_kept %all : !mask -> !list, !count
    kvc.yield %i, %n : !list, !count
  }
  kvc.kernel compact "compact"(%2#0, %2#1) : (!list, !count) -> () {
  ^bb0(%i: !list, %n: !count):
    kvc.compact %i, %n : !list, !count
    kvc.yield
  }
  kvc.done
}

// A maximum and the sum of exponentials below it, of parts that a columns kernel has.
// CHECK-LABEL: kvc.policy @exp_sums
kvc.policy @exp_sums {
  %0:2 = kvc.kernel columns "columns0"() : () -> (!spans, !spans) {
    %n = kvc.norm l2 key : !score
    // CHECK: kvc.exp_sum_part %{{.*}} : tensor<?x?xf32, #kvc.axes<kv_heads, past>> -> tensor<?x?xf32, #kvc.axes<kv_heads, split>>, tensor<?x?xf32, #kvc.axes<kv_heads, split>>
    %m, %l = kvc.exp_sum_part %n : !score -> !spans, !spans
    kvc.yield %m, %l : !spans, !spans
  }
  %1:2 = kvc.kernel spans "spans0"(%0#0, %0#1) : (!spans, !spans) -> (!heads, !heads) {
  ^bb0(%m: !spans, %l: !spans):
    // CHECK: kvc.combine_exp_sums %{{.*}}, %{{.*}} : tensor<?x?xf32, #kvc.axes<kv_heads, split>>, tensor<?x?xf32, #kvc.axes<kv_heads, split>> -> tensor<?xf32, #kvc.axes<kv_heads>>, tensor<?xf32, #kvc.axes<kv_heads>>
    %most, %sum = kvc.combine_exp_sums %m, %l : !spans, !spans -> !heads, !heads
    kvc.yield %most, %sum : !heads, !heads
  }
  %2:2 = kvc.kernel spans "spans1"() : () -> (!list, !count) {
    %true = arith.constant true
    %all = kvc.broadcast %true : i1 to !mask
    %i, %n = kvc.list_kept %all : !mask -> !list, !count
    kvc.yield %i, %n : !list, !count
  }
  kvc.kernel compact "compact"(%2#0, %2#1) : (!list, !count) -> () {
  ^bb0(%i: !list, %n: !count):
    kvc.compact %i, %n : !list, !count
    kvc.yield
  }
  kvc.done
}

!halves = tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>

// A deviation over tokens, of parts that a columns kernel has.
// CHECK-LABEL: kvc.policy @deviations
kvc.policy @deviations {
  %0:3 = kvc.kernel columns "columns0"() : () -> (!halves, !halves, !halves) {
    %x = kvc.norm l2 key : !score
    // CHECK: kvc.deviation_part %{{.*}} : tensor<?x?xf32, #kvc.axes<kv_heads, past>> -> tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>, tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>, tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>
    %n, %m, %q = kvc.deviation_part %x : !score -> !halves, !halves, !halves
    kvc.yield %n, %m, %q : !halves, !halves, !halves
  }
  %1 = kvc.kernel spans "spans0"(%0#0, %0#1, %0#2) : (!halves, !halves, !halves) -> !heads {
  ^bb0(%n: !halves, %m: !halves, %q: !halves):
    // CHECK: kvc.combine_deviations %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>, tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>, tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>> -> tensor<?xf32, #kvc.axes<kv_heads>>
    %d = kvc.combine_deviations %n, %m, %q : !halves, !halves, !halves -> !heads
    kvc.yield %d : !heads
  }
  %2:2 = kvc.kernel spans "spans1"() : () -> (!list, !count) {
    %true = arith.constant true
    %all = kvc.broadcast %true : i1 to !mask
    %i, %n = kvc.list_kept %all : !mask -> !list, !count
    kvc.yield %i, %n : !list, !count
  }
  kvc.kernel compact "compact"(%2#0, %2#1) : (!list, !count) -> () {
  ^bb0(%i: !list, %n: !count):
    kvc.compact %i, %n : !list, !count
    kvc.yield
  }
  kvc.done
}

!vectors  = tensor<?x?x?xf32, #kvc.axes<kv_heads, channel, past>>
!parts    = tensor<?x?x?xf32, #kvc.axes<kv_heads, split, channel>>
!channels = tensor<?x?xf32, #kvc.axes<kv_heads, channel>>

// A reduction of vectors over tokens, split by split.
// CHECK-LABEL: kvc.policy @parts
kvc.policy @parts {
  // CHECK: kvc.kernel parts "parts0"() :
  %0 = kvc.kernel parts "parts0"() : () -> !parts {
    %k = kvc.vectors key : !vectors
    // CHECK: kvc.reduce_part mean %{{.*}} : tensor<?x?x?xf32, #kvc.axes<kv_heads, channel, past>> -> tensor<?x?x?xf32, #kvc.axes<kv_heads, split, channel>>
    %p = kvc.reduce_part mean %k : !vectors -> !parts
    kvc.yield %p : !parts
  }
  %1 = kvc.kernel rows "rows0"(%0) : (!parts) -> !channels {
  ^bb0(%p: !parts):
    // CHECK: kvc.combine_parts mean %{{.*}} : tensor<?x?x?xf32, #kvc.axes<kv_heads, split, channel>> -> tensor<?x?xf32, #kvc.axes<kv_heads, channel>>
    %m = kvc.combine_parts mean %p : !parts -> !channels
    kvc.yield %m : !channels
  }
  %2 = kvc.kernel columns "columns0"(%1) : (!channels) -> !score {
  ^bb0(%m: !channels):
    %k = kvc.vectors key : !vectors
    %a = kvc.broadcast %m : !channels to !vectors
    %d = arith.mulf %k, %a : !vectors
    %s = kvc.reduce sum channels %d : !vectors -> !score
    kvc.yield %s : !score
  }
  %3:2 = kvc.kernel spans "spans0"(%2) : (!score) -> (!list, !count) {
  ^bb0(%s: !score):
    %one = arith.constant 1.0 : f32
    %o = kvc.broadcast %one : f32 to !score
    %m = arith.cmpf ogt, %s, %o : !score
    %i, %n = kvc.list_kept %m : !mask -> !list, !count
    kvc.yield %i, %n : !list, !count
  }
  kvc.kernel compact "compact"(%3#0, %3#1) : (!list, !count) -> () {
  ^bb0(%i: !list, %n: !count):
    kvc.compact %i, %n : !list, !count
    kvc.yield
  }
  kvc.done
}
