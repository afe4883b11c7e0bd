// RUN: kvc-opt %s --kvc-roll-streams | FileCheck %s
// RUN: kvc-opt %s --kvc-roll-streams=written-out | FileCheck %s --check-prefix=LONG

// The loop over the rest begins where the loop with two steps written out began, with
// what that one was given.
// CHECK-LABEL: gpu.func @stream
// CHECK-DAG: %[[FROM:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[SUM:.*]] = scf.for %[[I:.*]] = %[[FROM]] to %[[TO:.*]] step %{{.*}} iter_args(%[[S:.*]] = %[[ZERO]]) -> (f32) {
// CHECK-NEXT: %[[X:.*]] = memref.load %{{.*}}[%[[I]]]
// CHECK-NEXT: %[[NEXT:.*]] = arith.addf %[[S]], %[[X]]
// CHECK-NEXT: scf.yield %[[NEXT]]
// CHECK-NEXT: } {kvc.stream_rest}
// CHECK-NOT: scf.for
// CHECK: memref.store %[[SUM]]

// A loop whose rest was folded away stays, and so does the rest of another.
// CHECK-LABEL: gpu.func @alone
// CHECK: scf.for
// CHECK: {kvc.stream}
// CHECK: scf.for
// CHECK: {kvc.stream_rest}

// Of two forms of one walk the short one stays, of walks within it as well.
// CHECK-LABEL: gpu.func @forms
// CHECK-NOT: simt.one_by_one
// CHECK-NOT: scf.if
// CHECK: %[[ONE:.*]] = arith.constant 1.0
// CHECK: memref.store %[[ONE]], %{{.*}}[%{{.*}}]
// CHECK-NEXT: %[[SHORT:.*]] = arith.addf %[[ONE]], %[[ONE]]
// CHECK-NEXT: memref.store %[[SHORT]]
// CHECK-NEXT: gpu.return

// For PTX the long one, and streams stay what they are.
// LONG-LABEL: gpu.func @stream
// LONG: {kvc.stream}
// LONG: {kvc.stream_rest}
// LONG-LABEL: gpu.func @forms
// LONG-NOT: simt.one_by_one
// LONG-NOT: scf.if
// LONG: %[[TWO:.*]] = arith.constant 2.0
// LONG: memref.store %[[TWO]], %{{.*}}[%{{.*}}]
// LONG-NEXT: memref.store %[[TWO]]
// LONG-NEXT: gpu.return

// Memory that only the other form uses goes with it.
// CHECK-LABEL: gpu.func @own
// CHECK: memref.alloca
// CHECK: memref.store
// LONG-LABEL: gpu.func @own
// LONG-NEXT: gpu.return

gpu.module @kernels {
  gpu.func @stream(%from: memref<100xf32>, %full: index, %to: index, %out: memref<f32>) kernel {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant 0.0 : f32
    %many = scf.for %i = %c3 to %full step %c2 iter_args(%s = %zero) -> (f32) {
      %j = arith.addi %i, %c1 : index
      %x = memref.load %from[%i] : memref<100xf32>
      %y = memref.load %from[%j] : memref<100xf32>
      %a = arith.addf %s, %x : f32
      %b = arith.addf %a, %y : f32
      scf.yield %b : f32
    } {kvc.stream}
    %sum = scf.for %i = %full to %to step %c1 iter_args(%s = %many) -> (f32) {
      %x = memref.load %from[%i] : memref<100xf32>
      %a = arith.addf %s, %x : f32
      scf.yield %a : f32
    } {kvc.stream_rest}
    memref.store %sum, %out[] : memref<f32>
    gpu.return
  }
  gpu.func @alone(%to: memref<100xf32>, %full: index, %other: index, %end: index) kernel {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %one = arith.constant 1.0 : f32
    scf.for %i = %c1 to %full step %c2 {
      memref.store %one, %to[%i] : memref<100xf32>
    } {kvc.stream}
    scf.for %i = %other to %end step %c1 {
      memref.store %one, %to[%i] : memref<100xf32>
    } {kvc.stream_rest}
    gpu.return
  }
  gpu.func @forms(%to: memref<100xf32>, %at: index, %out: memref<f32>) kernel {
    %one = arith.constant 1.0 : f32
    %two = arith.constant 2.0 : f32
    %short = simt.one_by_one
    %result = scf.if %short -> (f32) {
      scf.if %short {
        memref.store %one, %to[%at] : memref<100xf32>
      } else {
        memref.store %two, %to[%at] : memref<100xf32>
      }
      %sum = arith.addf %one, %one : f32
      scf.yield %sum : f32
    } else {
      memref.store %two, %to[%at] : memref<100xf32>
      scf.yield %two : f32
    }
    memref.store %result, %out[] : memref<f32>
    gpu.return
  }
  gpu.func @own(%x: f32, %at: index) kernel {
    %own = memref.alloca() : memref<4xf32>
    %short = simt.one_by_one
    scf.if %short {
      memref.store %x, %own[%at] : memref<4xf32>
    }
    gpu.return
  }
}
