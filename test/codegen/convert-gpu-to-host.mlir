// RUN: kvc-opt %s --convert-gpu-to-host | FileCheck %s

// A thread's coordinates are fields of its context; a barrier is a call through the
// context's table; block memory is an offset into one buffer.
gpu.module @kernels {
  // CHECK-LABEL: func.func @mirror(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr) attributes {kvc.shared_bytes = 128 : i64}
  // CHECK-NOT: gpu.
  // CHECK: llvm.call %{{.*}}(%{{.*}}) : !llvm.ptr, (!llvm.ptr) -> ()
  // CHECK-NOT: gpu.
  gpu.func @mirror(%out: memref<f32, #gpu.address_space<global>>)
      workgroup(%shared: memref<32xf32, #gpu.address_space<workgroup>>) kernel {
    %t = gpu.thread_id x
    %x = memref.load %out[] : memref<f32, #gpu.address_space<global>>
    memref.store %x, %shared[%t] : memref<32xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %y = memref.load %shared[%t] : memref<32xf32, #gpu.address_space<workgroup>>
    memref.store %y, %out[] : memref<f32, #gpu.address_space<global>>
    gpu.return
  }
}
