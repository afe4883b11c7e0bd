// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(kvc-select-memory))" | FileCheck %s

!argument = memref<f32, #gpu.address_space<global>>
!memory = memref<9xf32, strided<[1]>, #gpu.address_space<global>>

gpu.module @kernels {
  // One load in the loop, of an argument that is selected once for both places.
  // CHECK-LABEL: gpu.func @in_front
  // CHECK-SAME: (%[[A:.*]]: memref<f32{{.*}}>, %[[B:.*]]: memref<f32{{.*}}>, %[[C:.*]]: memref
  // CHECK: %[[P:.*]] = arith.cmpi
  // CHECK-NEXT: %[[M:.*]] = arith.select %[[P]], %[[A]], %[[B]] : memref
  // CHECK: scf.for
  // CHECK-NOT: arith.select
  // CHECK: memref.reinterpret_cast %[[M]]
  // CHECK-NEXT: memref.load
  // CHECK-NOT: memref.load
  // CHECK-NOT: arith.select
  // CHECK: memref.reinterpret_cast %[[M]]
  // CHECK-NEXT: memref.load
  // CHECK-NOT: memref.load
  // CHECK: memref.store
  gpu.func @in_front(%a: !argument, %b: !argument, %c: !argument, %i: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %p = arith.cmpi eq, %i, %c0 : index
    scf.for %t = %c0 to %i step %c1 {
      %x = memref.reinterpret_cast %a to offset: [0], sizes: [9], strides: [1] : !argument to !memory
      %y = memref.reinterpret_cast %b to offset: [0], sizes: [9], strides: [1] : !argument to !memory
      %z = memref.reinterpret_cast %c to offset: [0], sizes: [9], strides: [1] : !argument to !memory
      %u = memref.load %x[%t] : !memory
      %v = memref.load %y[%t] : !memory
      %r = arith.select %p, %u, %v : f32
      %j = arith.addi %t, %c1 : index
      %u1 = memref.load %x[%j] : !memory
      %v1 = memref.load %y[%j] : !memory
      %r1 = arith.select %p, %u1, %v1 : f32
      %s = arith.addf %r, %r1 : f32
      memref.store %s, %z[%t] : !memory
    }
    gpu.return
  }

  // Not where each step has a condition of its own, where the places differ, where one is
  // read elsewhere too, or where something may write between them.
  // CHECK-LABEL: gpu.func @left
  // CHECK-NOT: arith.select {{.*}} memref
  // CHECK: gpu.return
  gpu.func @left(%a: !argument, %b: !argument, %c: !argument, %i: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %p = arith.cmpi eq, %i, %c0 : index
    %x = memref.reinterpret_cast %a to offset: [0], sizes: [9], strides: [1] : !argument to !memory
    %y = memref.reinterpret_cast %b to offset: [0], sizes: [9], strides: [1] : !argument to !memory
    %z = memref.reinterpret_cast %c to offset: [0], sizes: [9], strides: [1] : !argument to !memory
    scf.for %t = %c0 to %i step %c1 {
      %q = arith.cmpi eq, %t, %c0 : index
      %u = memref.load %x[%t] : !memory
      %v = memref.load %y[%t] : !memory
      %r = arith.select %q, %u, %v : f32
      memref.store %r, %z[%t] : !memory
      %j = arith.addi %t, %c1 : index
      %u1 = memref.load %x[%t] : !memory
      %v1 = memref.load %y[%j] : !memory
      %r1 = arith.select %p, %u1, %v1 : f32
      memref.store %r1, %z[%t] : !memory
      %u2 = memref.load %x[%t] : !memory
      %v2 = memref.load %y[%t] : !memory
      %r2 = arith.select %p, %u2, %v2 : f32
      %r3 = arith.addf %r2, %u2 : f32
      memref.store %r3, %z[%t] : !memory
      %u4 = memref.load %x[%t] : !memory
      memref.store %r3, %y[%t] : !memory
      %v4 = memref.load %y[%t] : !memory
      %r4 = arith.select %p, %u4, %v4 : f32
      memref.store %r4, %z[%t] : !memory
    }
    gpu.return
  }
}
