// RUN: kvc-opt %s --split-input-file --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes,kvc-form-kernels))" 2>/dev/null | FileCheck %s
// RUN: kvc-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes,kvc-form-kernels))" >/dev/null

// Everything before the pool is one columns kernel, everything behind it one rows
// kernel; nothing with a window axis is stored. The pass is idempotent.
// CHECK-LABEL: kvc.policy @window_mean
// CHECK: kvc.kernel statistics
// CHECK: %[[LSE:.*]] = kvc.kernel combine
// CHECK: %[[S:.*]] = kvc.kernel columns "columns0"() lse(%[[LSE]]) : {{.*}} -> tensor<?x?xf32, #kvc.axes<kv_heads, past>> {
// CHECK: kvc.attention
// CHECK: kvc.reduce mean queries
// CHECK: kvc.reduce mean group
// CHECK: %[[K:.*]]:2 = kvc.kernel rows "rows0"(%[[S]])
// CHECK: kvc.pool
// CHECK: kvc.store
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
  // expected-remark @+1 {{fused into rows0: 1*kv_heads*tokens bytes are neither written nor read}}
  %k = kvc.topk %pool, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%w) : tensor<?x?xi1>
}

// -----

// A mean over all heads of a pooled value is another block's work: it goes into a
// second columns kernel, and the selection into a second rows kernel.
// CHECK-LABEL: kvc.policy @heads_after_pool
// CHECK: kvc.kernel columns "columns0"
// CHECK: kvc.kernel rows "rows0"
// CHECK: kvc.pool
// CHECK: kvc.kernel columns "columns1"
// CHECK: kvc.reduce max heads
// CHECK: kvc.kernel rows "rows1"
// CHECK: kvc.topk
kvc.policy @heads_after_pool {
  %w = arith.constant 5 : index
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %p = kvc.pool mean %n width(%w) : tensor<?x?xf32>
  %all = kvc.reduce max heads %p : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-remark @+1 {{fused into rows1}}
  %k = kvc.topk %all, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// Without scores there is one rows kernel: positions are computed where they are
// needed.
// CHECK-LABEL: kvc.policy @no_scores
// CHECK-NOT: kvc.kernel columns
// CHECK: kvc.kernel rows "rows0"()
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
// five launches with the log-sum-exp given.
// CHECK-LABEL: kvc.policy @adaptive
// CHECK: kvc.kernel columns "columns0"
// CHECK: %[[POOLED:.*]] = kvc.kernel rows "rows0"
// CHECK: kvc.pool
// CHECK: %[[COUNT:.*]] = kvc.kernel sequence "sequence0"(%[[POOLED]])
// CHECK: kvc.allocate uniform
// CHECK: kvc.allocate_heads
// CHECK: kvc.kernel rows "rows1"(%[[POOLED]], %[[COUNT]])
// CHECK: kvc.topk
// CHECK: kvc.kernel compact
kvc.policy @adaptive {
  %w = arith.constant 5 : index
  %s = kvc.fraction "0.2"
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %p = kvc.pool mean %n width(%w) : tensor<?x?xf32>
  %b = kvc.allocate uniform : tensor<?xi32>
  %c = kvc.allocate_heads %p base(%b) safeguard(%s) : tensor<?x?xf32>, tensor<?xi32>
  // expected-remark @+1 {{fused into rows1}}
  %k = kvc.topk %p, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}
