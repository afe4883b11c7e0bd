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

// One bit of a float, through 32.
gpu.module @bits {
  // CHECK-LABEL: gpu.func @bit
  // CHECK: %[[U:.*]] = arith.fptoui %{{.*}} : f32 to i32
  // CHECK: arith.trunci %[[U]] : i32 to i1
  // CHECK: %[[S:.*]] = arith.fptosi %{{.*}} : f32 to i32
  // CHECK: arith.trunci %[[S]] : i32 to i1
  gpu.func @bit(%x: f32) -> i1 {
    %u = arith.fptoui %x : f32 to i1
    %s = arith.fptosi %x : f32 to i1
    %b = arith.xori %u, %s : i1
    gpu.return %b : i1
  }
}
