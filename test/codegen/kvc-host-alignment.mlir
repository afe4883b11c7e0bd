// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(kvc-host-alignment))" | FileCheck %s

gpu.module @kernels {
  // What asks for less, or for nothing, stays.
  // CHECK-LABEL: gpu.func @rows
  // CHECK: vector.load %{{.*}}[%{{.*}}] {alignment = 4 : i64} : memref<?xf32>, vector<4xf32>
  // CHECK: vector.store %{{.*}}, %{{.*}}[%{{.*}}] {alignment = 4 : i64} : memref<?xf32>, vector<4xf32>
  // CHECK: vector.load %{{.*}}[%{{.*}}] {alignment = 2 : i64} : memref<?xbf16>, vector<1xbf16>
  // CHECK: vector.store %{{.*}}, %{{.*}}[%{{.*}}] : memref<?xbf16>, vector<1xbf16>
  gpu.func @rows(%a: memref<?xf32>, %b: memref<?xbf16>, %i: index) {
    %four = vector.load %a[%i] {alignment = 16 : i64} : memref<?xf32>, vector<4xf32>
    vector.store %four, %a[%i] {alignment = 16 : i64} : memref<?xf32>, vector<4xf32>
    %one = vector.load %b[%i] {alignment = 2 : i64} : memref<?xbf16>, vector<1xbf16>
    vector.store %one, %b[%i] : memref<?xbf16>, vector<1xbf16>
    gpu.return
  }
}
