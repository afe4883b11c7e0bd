// RUN: kvc-opt %policies/snapkv.mlir --kvc-fuse-pipeline --convert-kvc-to-gpu="shapes=head_dim=64,group=2,dtype=f32;head_dim=128,group=4,dtype=bf16" 2>/dev/null | FileCheck %s
// RUN: not kvc-opt %policies/snapkv.mlir --convert-kvc-to-gpu="shapes=head_dim=64,group=2" 2>&1 | FileCheck %s --check-prefix=UNFUSED
// RUN: not kvc-opt %policies/snapkv.mlir --kvc-fuse-pipeline --convert-kvc-to-gpu 2>&1 | FileCheck %s --check-prefix=SHAPELESS

// One kernel per shape, launch data on the function.
// CHECK: gpu.module @snapkv attributes {kvc.manifest
// CHECK: gpu.func @snapkv_compact_d64_g2_f32
// CHECK-SAME: kvc.args = ["k", "k_batch"
// CHECK-SAME: kvc.grid = ["ceildiv(index_capacity,
// CHECK: gpu.func @snapkv_columns0_d128_g4_bf16
// UNFUSED: kernels must be formed first (kvc-form-kernels)
// SHAPELESS: a shape must be given
