// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(kvc-early-loads))" | FileCheck %s

!memory = memref<?xf32, #gpu.address_space<global>>
!shared = memref<8xf32, #gpu.address_space<workgroup>>

gpu.module @kernels {
  // The second load goes in front of the first division, with its address.
  // CHECK-LABEL: gpu.func @together
  // CHECK: memref.load
  // CHECK-NEXT: arith.addi
  // CHECK-NEXT: memref.load
  // CHECK-NEXT: arith.divf
  // CHECK-NEXT: arith.divf
  // CHECK-NEXT: memref.store
  gpu.func @together(%m: !memory, %i: index, %s: f32) {
    %c1 = arith.constant 1 : index
    %a = memref.load %m[%i] : !memory
    %x = arith.divf %a, %s : f32
    %j = arith.addi %i, %c1 : index
    %b = memref.load %m[%j] : !memory
    %y = arith.divf %b, %x : f32
    memref.store %y, %m[%i] : !memory
    gpu.return
  }

  // Not over what may write; not the memory of a block; not where the quotient says where.
  // CHECK-LABEL: gpu.func @behind
  // CHECK: arith.divf
  // CHECK-NEXT: memref.load {{.*}}workgroup
  // CHECK-NEXT: arith.fptosi
  // CHECK-NEXT: arith.index_cast
  // CHECK-NEXT: memref.load
  // CHECK-NEXT: memref.store
  // CHECK-NEXT: memref.load
  // CHECK-NEXT: math.sqrt
  // CHECK-NEXT: gpu.barrier
  // CHECK-NEXT: memref.load
  gpu.func @behind(%m: !memory, %own: !shared, %i: index, %s: f32) {
    %x = arith.divf %s, %s : f32
    %o = memref.load %own[%i] : !shared
    %n = arith.fptosi %x : f32 to i32
    %j = arith.index_cast %n : i32 to index
    %a = memref.load %m[%j] : !memory
    memref.store %o, %m[%i] : !memory
    %b = memref.load %m[%i] : !memory
    %y = math.sqrt %b : f32
    gpu.barrier
    %c = memref.load %m[%i] : !memory
    %sum = arith.addf %c, %y : f32
    %all = arith.addf %sum, %a : f32
    memref.store %all, %m[%i] : !memory
    gpu.return
  }

  // As many as there are registers for: four vectors of eight, not a fifth.
  // CHECK-LABEL: gpu.func @most
  // CHECK-COUNT-4: vector.load
  // CHECK-NEXT: arith.divf
  // CHECK-NEXT: vector.load
  gpu.func @most(%m: !memory, %i: index, %s: f32) -> vector<8xf32> {
    %x = arith.divf %s, %s : f32
    %a = vector.load %m[%i] : !memory, vector<8xf32>
    %b = vector.load %m[%i] : !memory, vector<8xf32>
    %c = vector.load %m[%i] : !memory, vector<8xf32>
    %d = vector.load %m[%i] : !memory, vector<8xf32>
    %e = vector.load %m[%i] : !memory, vector<8xf32>
    %f = arith.addf %a, %b : vector<8xf32>
    %g = arith.addf %c, %d : vector<8xf32>
    %h = arith.addf %f, %g : vector<8xf32>
    %k = arith.addf %h, %e : vector<8xf32>
    %v = vector.broadcast %x : f32 to vector<8xf32>
    %r = arith.addf %k, %v : vector<8xf32>
    gpu.return %r : vector<8xf32>
  }
}
