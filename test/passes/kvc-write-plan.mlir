// RUN: kvc-opt %policies/snapkv.mlir --emit=fused | FileCheck %s
// RUN: kvc-opt %policies/h2o.mlir --emit=fused | FileCheck %s --check-prefix=ALL
// RUN: kvc-opt %policies/lagkv.mlir --emit=fused | FileCheck %s --check-prefix=BLOCK
// RUN: kvc-opt %policies/full.mlir --emit=fused | FileCheck %s --check-prefix=NONE
// RUN: kvc-opt %S/../variants/pruned_product.mlir --prune-norms --emit=fused | FileCheck %s --check-prefix=MODEL

// The plan is of the kernels as they stand: what was read is written anew.
// RUN: kvc-opt %policies/snapkv.mlir --emit=fused -o %t.mlir
// RUN: sed 's/phases = \[[^]]*\]/phases = []/; s/lse = 1/lse = 77/; s/, buffers = \[[0-9].*]>}/, buffers = []>}/' %t.mlir > %t.stale.mlir
// RUN: kvc-opt %t.stale.mlir --emit=fused | FileCheck %s

// Whoever builds kernels of a stale plan, or of none, is told.
// RUN: not kvc-opt %t.stale.mlir --convert-kvc-to-gpu="shapes=head_dim=64,group=2,dtype=f32" 2>&1 | FileCheck %s --check-prefix=STALE
// RUN: sed 's/plan<queries = 32, protect_last = 32, lse = 1/plan<queries = 32, protect_last = 32, lse = 12/' %t.mlir > %t.behind.mlir
// RUN: not kvc-opt %t.behind.mlir --convert-kvc-to-gpu="shapes=head_dim=64,group=2,dtype=f32" 2>&1 | FileCheck %s --check-prefix=STALE
// RUN: sed 's/buffers = \[#kvc.buffer<2[^]]*\]//' %t.mlir > %t.unnumbered.mlir
// RUN: not kvc-opt %t.unnumbered.mlir --pass-pipeline="builtin.module(kvc.policy(kvc-write-plan))" 2>&1 | FileCheck %s --check-prefix=UNNUMBERED
// STALE: error: the plan must be written first (kvc-write-plan)
// UNNUMBERED: error: 'kvc.kernel' op scratch must be numbered first (kvc-plan-scratch)

// A kernel is needed with a log-sum-exp, too, where others read what it makes.
// RUN: sed '/"spans0"/{s/(%2)/(%2, %1)/; s/ : (\([^)]*\)) ->/ : (\1, tensor<?x32xf32, #kvc.axes<query_heads, query>>) ->/; n; s/):/, %lse: tensor<?x32xf32, #kvc.axes<query_heads, query>>):/}' %t.mlir > %t.read.mlir
// RUN: kvc-opt %t.read.mlir --emit=fused | FileCheck %s --check-prefix=READ
// READ: scores = 3 of kv_heads, phases =

// Ranked scores live to the end, what blocks add to from the kernel in front on.
// CHECK: plan = #kvc.plan<queries = 32, protect_last = 32, lse = 1, scores = 3 of kv_heads,
// CHECK-SAME: skipped_with_lse = [0, 1],
// CHECK-SAME: phases = [score, score, score, score, score, select, compact],
// CHECK-SAME: buffers = [0 to 1 : tensor<?x32x?x2xf32,
// CHECK-SAME: 3 to 6 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>,
// CHECK-SAME: 3 to 5 : tensor<?x?xi16, #kvc.axes<kv_heads, past>>,
// CHECK-SAME: 2 to 5 : tensor<?x2048xi32, #kvc.axes<kv_heads, bin>>,

// What a kernel stores for itself is a block's own.
// BLOCK: per_block : tensor<?x?xf32, #kvc.axes<kv_heads, past>>

// ALL: #kvc.plan<queries = all, protect_last = unknown, lse = 0,

// NONE: #kvc.plan<queries = 0, protect_last = 0, lse = none, scores = none,
// NONE-SAME: phases = [select, compact], buffers = []>

// MODEL: model : tensor<?x?x?xf32, #kvc.axes<query_heads, channel, channel>>
