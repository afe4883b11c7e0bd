// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(convert-kernels-to-nvvm))" | FileCheck %s

gpu.module @kernels {
  // A buffer is one parameter, and its type says the rest; vectors and lanes are lowered
  // in the same go.
  // CHECK-LABEL: llvm.func @row(
  // CHECK-SAME: %[[FROM:.*]]: !llvm.ptr<1>, %[[TO:.*]]: !llvm.ptr<1>, %[[AT:.*]]: i64)
  // CHECK-SAME: gpu.kernel
  // CHECK-DAG: nvvm.read.ptx.sreg.tid.x
  // CHECK-DAG: llvm.load %{{.*}} : !llvm.ptr<1> -> vector<8xbf16>
  // CHECK-DAG: llvm.bitcast %{{.*}} : vector<8xbf16> to vector<4xi32>
  // CHECK-DAG: llvm.extractelement
  // CHECK: llvm.store %{{.*}}, %{{.*}} : i32, !llvm.ptr<3>
  // CHECK: nvvm.barrier0
  // CHECK: nvvm.shfl.sync idx
  // CHECK: llvm.store %{{.*}}, %{{.*}} : i32, !llvm.ptr<1>
  // CHECK: llvm.return
  // CHECK-NOT: builtin.unrealized_conversion_cast
  gpu.func @row(%from: memref<1024xbf16, #gpu.address_space<global>>,
                %to: memref<1024xi32, #gpu.address_space<global>>, %at: index)
      workgroup(%shared: memref<32xi32, #gpu.address_space<workgroup>>) kernel {
    %lane = gpu.thread_id x
    %row = vector.load %from[%at] : memref<1024xbf16, #gpu.address_space<global>>, vector<8xbf16>
    %words = vector.bitcast %row : vector<8xbf16> to vector<4xi32>
    %word = vector.extract %words[2] : i32 from vector<4xi32>
    memref.store %word, %shared[%lane] : memref<32xi32, #gpu.address_space<workgroup>>
    gpu.barrier
    %first = arith.constant 0 : i32
    %all = arith.constant 32 : i32
    %other, %valid = gpu.shuffle idx %word, %first, %all : i32
    memref.store %other, %to[%lane] : memref<1024xi32, #gpu.address_space<global>>
    gpu.return
  }
}
