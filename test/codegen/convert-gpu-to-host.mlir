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

  // A team's barrier is the block's.
  // CHECK-LABEL: func.func @meet
  // CHECK: llvm.call %{{.*}}(%{{.*}}) : !llvm.ptr, (!llvm.ptr) -> ()
  // CHECK-NOT: simt.
  // CHECK: return
  gpu.func @meet(%team: i32) kernel {
    simt.team_barrier %team of 64
    gpu.return
  }

  // Copies are there at once.
  // CHECK-LABEL: func.func @copy
  // CHECK: %[[MOVED:.*]] = vector.load %{{.*}} : memref<?xf32>, vector<4xf32>
  // CHECK: vector.store %[[MOVED]], %{{.*}} : memref<64xf32>, vector<4xf32>
  // CHECK-NOT: simt.
  // CHECK: return
  gpu.func @copy(%from: memref<f32, #gpu.address_space<global>>)
      workgroup(%to: memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    %i = arith.constant 0 : index
    %row = memref.reinterpret_cast %from to offset: [0], sizes: [64], strides: [1] : memref<f32, #gpu.address_space<global>> to memref<?xf32, #gpu.address_space<global>>
    simt.async_copy 4 of %row[%i] to %to[%i] : memref<?xf32, #gpu.address_space<global>> to memref<64xf32, #gpu.address_space<workgroup>>
    simt.async_commit
    simt.async_wait 0
    gpu.return
  }
}
