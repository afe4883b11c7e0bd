// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(kvc-contract-products))" | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @sums
  // CHECK-SAME: %[[A:.*]]: f32, %[[B:.*]]: f32, %[[C:.*]]: f32)
  // CHECK-NEXT: %[[SUM:.*]] = math.fma %[[A]], %[[B]], %[[C]] : f32
  // CHECK-NEXT: %[[MINUS:.*]] = arith.negf %[[C]] : f32
  // CHECK-NEXT: %[[LESS:.*]] = math.fma %[[A]], %[[B]], %[[MINUS]] : f32
  // CHECK-NEXT: %[[FACTOR:.*]] = arith.negf %[[A]] : f32
  // CHECK-NEXT: %[[TAKEN:.*]] = math.fma %[[FACTOR]], %[[B]], %[[C]] : f32
  // CHECK-NEXT: gpu.return %[[SUM]], %[[LESS]], %[[TAKEN]]
  gpu.func @sums(%a: f32, %b: f32, %c: f32) -> (f32, f32, f32) {
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %sum = arith.addf %c, %p fastmath<contract> : f32
    %q = arith.mulf %a, %b fastmath<contract> : f32
    %less = arith.subf %q, %c fastmath<contract> : f32
    %r = arith.mulf %a, %b fastmath<fast> : f32
    %taken = arith.subf %c, %r fastmath<fast> : f32
    gpu.return %sum, %less, %taken : f32, f32, f32
  }

  // The first of two products is taken, or the one that nobody else uses.
  // CHECK-LABEL: gpu.func @two
  // CHECK-SAME: %[[A:.*]]: f32, %[[B:.*]]: f32, %[[C:.*]]: f32)
  // CHECK-NEXT: %[[Q:.*]] = arith.mulf %[[B]], %[[C]] : f32
  // CHECK-NEXT: %[[FIRST:.*]] = math.fma %[[A]], %[[B]], %[[Q]] : f32
  // CHECK-NEXT: %[[R:.*]] = arith.mulf %[[A]], %[[C]] : f32
  // CHECK-NEXT: %[[SECOND:.*]] = math.fma %[[C]], %[[C]], %[[R]] : f32
  // CHECK-NEXT: gpu.return %[[FIRST]], %[[SECOND]], %[[R]]
  gpu.func @two(%a: f32, %b: f32, %c: f32) -> (f32, f32, f32) {
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %q = arith.mulf %b, %c fastmath<contract> : f32
    %first = arith.addf %p, %q fastmath<contract> : f32
    %r = arith.mulf %a, %c fastmath<contract> : f32
    %s = arith.mulf %c, %c fastmath<contract> : f32
    %second = arith.addf %r, %s fastmath<contract> : f32
    gpu.return %first, %second, %r : f32, f32, f32
  }

  // A product that is added to itself, and vectors.
  // CHECK-LABEL: gpu.func @twice
  // CHECK: math.fma %{{.*}}, %{{.*}}, %{{.*}} : vector<4xf32>
  gpu.func @twice(%a: vector<4xf32>) -> vector<4xf32> {
    %p = arith.mulf %a, %a fastmath<contract> : vector<4xf32>
    %sum = arith.addf %p, %p fastmath<contract> : vector<4xf32>
    gpu.return %sum : vector<4xf32>
  }

  // What does not have the flag stays, and so does a product of another block; flags of
  // any kind go.
  // CHECK-LABEL: gpu.func @apart
  // CHECK-NOT: fastmath
  // CHECK-NOT: math.fma
  gpu.func @apart(%a: f32, %b: f32, %c: f32, %on: i1) -> (f32, f32, f32) {
    %p = arith.mulf %a, %b : f32
    %sum = arith.addf %p, %c fastmath<contract> : f32
    %q = arith.mulf %a, %b fastmath<contract> : f32
    %plain = arith.addf %q, %c : f32
    %r = arith.mulf %a, %c fastmath<contract> : f32
    %chosen = scf.if %on -> f32 {
      %there = arith.addf %r, %c fastmath<contract> : f32
      scf.yield %there : f32
    } else {
      %ratio = arith.divf %a, %c fastmath<fast> : f32
      %y = math.exp2 %ratio fastmath<fast> : f32
      scf.yield %y : f32
    }
    gpu.return %sum, %plain, %chosen : f32, f32, f32
  }
}
