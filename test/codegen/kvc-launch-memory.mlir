// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(convert-kernels-to-nvvm,kvc-launch-memory))" | FileCheck %s

gpu.module @kernels {
  // Parts lie behind each other, aligned as they were; a kernel with memory of its own keeps it.
  // CHECK-NOT: @__wg_large
  // CHECK: llvm.mlir.global internal @__wg_own_0() {addr_space = 3
  // CHECK: llvm.func @own(
  // CHECK-NOT: {{_memory|@__wg_large}}
  gpu.func @own(%to: memref<1024xi32, #gpu.address_space<global>>)
      workgroup(%a: memref<32xi32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel {
    %lane = gpu.thread_id x
    %word = memref.load %a[%lane] : memref<32xi32, #gpu.address_space<workgroup>>
    memref.store %word, %to[%lane] : memref<1024xi32, #gpu.address_space<global>>
    gpu.return
  }
  // CHECK: llvm.mlir.global external @large_memory() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
  // CHECK: llvm.func @large(
  // CHECK: llvm.getelementptr %{{.*}}[0] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  // CHECK: llvm.getelementptr %{{.*}}[1024] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  // CHECK: llvm.getelementptr %{{.*}}[61024] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  // CHECK-NOT: @__wg_large
  gpu.func @large(%to: memref<1024xi32, #gpu.address_space<global>>)
      workgroup(%a: memref<3xi32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64},
                %b: memref<15000xf32, #gpu.address_space<workgroup>> {llvm.align = 1024 : i64},
                %c: memref<8xi32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {kvc.shared_bytes = 61056 : i64} {
    %lane = gpu.thread_id x
    %one = memref.load %a[%lane] : memref<3xi32, #gpu.address_space<workgroup>>
    %two = memref.load %b[%lane] : memref<15000xf32, #gpu.address_space<workgroup>>
    %three = memref.load %c[%lane] : memref<8xi32, #gpu.address_space<workgroup>>
    %bits = arith.bitcast %two : f32 to i32
    %some = arith.addi %one, %bits : i32
    %sum = arith.addi %some, %three : i32
    memref.store %sum, %to[%lane] : memref<1024xi32, #gpu.address_space<global>>
    gpu.return
  }
}
