// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(kvc-expand-math))" | FileCheck %s

// exp becomes a polynomial; sqrt, which is exact, is left; rsqrt is made of it.
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @formula
  // CHECK-NOT: math.exp
  // CHECK-NOT: math.rsqrt
  // CHECK: math.sqrt
  // CHECK-NOT: math.exp
  gpu.func @formula(%x: f32) -> f32 {
    %e = math.exp %x : f32
    %r = math.rsqrt %e : f32
    gpu.return %r : f32
  }
}
