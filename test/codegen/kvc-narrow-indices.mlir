// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(kvc-narrow-indices))" | FileCheck %s
// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(kvc-narrow-indices,canonicalize,cse))" | FileCheck %s --check-prefix=CLEAN

gpu.module @kernels {
  // Blocks of 512 threads over tokens: all of it fits, the loop as well, and what is a
  // constant apart is so in memory.
  // CLEAN-LABEL: gpu.func @tokens
  // CLEAN-DAG: %[[STEP:.*]] = arith.constant 512 : i32
  // CLEAN: %[[FIRST:.*]] = arith.addi %{{.*}}, %{{.*}} overflow<nsw> : i32
  // CLEAN: %[[END:.*]] = arith.minsi %{{.*}}, %arg0 : i32
  // CLEAN: scf.for %[[I:.*]] = %[[FIRST]] to %[[END]] step %[[STEP]] : i32 {
  // CLEAN: %[[NEXT:.*]] = arith.addi %[[I]], %{{.*}} overflow<nsw> : i32
  // CLEAN: arith.cmpi slt, %[[NEXT]], %[[END]] : i32
  // CLEAN: %[[AT:.*]] = arith.index_cast %[[NEXT]] : i32 to index
  // CLEAN: memref.store %{{.*}}, %{{.*}}[%[[AT]]]
  gpu.func @tokens(%n: i32, %out: memref<?xi32>) kernel
      attributes {known_block_size = array<i32: 512, 1, 1>, kvc.args = ["max_tokens", "indices"],
                  kvc.grid = ["ceildiv(tokens,2048)", "kv_heads", "batch"]} {
    %c1 = arith.constant 1 : index
    %c512 = arith.constant 512 : index
    %c2048 = arith.constant 2048 : index
    %tokens = arith.index_cast %n : i32 to index
    %thread = gpu.thread_id x
    %block = gpu.block_id x
    %begin = arith.muli %block, %c2048 : index
    %first = arith.addi %begin, %thread : index
    %behind = arith.addi %begin, %c2048 : index
    %end = arith.minsi %behind, %tokens : index
    scf.for %i = %first to %end step %c512 {
      %next = arith.addi %i, %c1 : index
      %inside = arith.cmpi slt, %next, %end : index
      scf.if %inside {
        memref.store %n, %out[%next] : memref<?xi32>
      }
    }
    gpu.return
  }

  // What may be more than 32 bits stays as it is: a product of counts, a sum behind it,
  // a number of which nothing is known, a loop with such an end, what loops carry.
  // CHECK-LABEL: gpu.func @wide
  // CHECK: arith.muli %{{.*}}, %{{.*}} : index
  // CHECK: arith.addi %{{.*}}, %{{.*}} : index
  // CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (index) {
  // CHECK: arith.addi %[[SUM]], %{{.*}} : index
  gpu.func @wide(%n: i32, %any: i64, %out: memref<?xi32>) kernel
      attributes {kvc.args = ["max_tokens", "k_batch", "indices"]} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %tokens = arith.index_cast %n : i32 to index
    %other = arith.index_cast %any : i64 to index
    %square = arith.muli %tokens, %tokens : index
    %at = arith.addi %square, %other : index
    %sum = scf.for %i = %c0 to %other step %c1 iter_args(%s = %at) -> (index) {
      %next = arith.addi %s, %tokens : index
      scf.yield %next : index
    }
    memref.store %n, %out[%sum] : memref<?xi32>
    gpu.return
  }

  // A kernel with matrix products stays as it was written; but what was written with 32
  // bits is multiplied with a stride as 32 bits by 32, and not with one of 64.
  // CHECK-LABEL: gpu.func @matrix
  // CHECK: %[[STRIDE:.*]] = arith.index_cast %arg1 : i64 to index
  // CHECK: %[[OF32:.*]] = arith.index_cast %[[STRIDE]] : index to i32
  // CHECK: %[[NEXT:.*]] = arith.addi %{{.*}}, %{{.*}} : index
  // CHECK: %[[WIDE:.*]] = arith.index_cast %[[OF32]] : i32 to index
  // CHECK: arith.muli %{{.*}}, %[[WIDE]] : index
  // CHECK: %[[FAR:.*]] = arith.index_cast %arg2 : i64 to index
  // CHECK: arith.muli %{{.*}}, %[[FAR]] : index
  gpu.func @matrix(%page: i32, %row: i64, %batch: i64, %x: f32, %out: memref<?xf32>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>,
                  kvc.args = ["scratch.0", "k_page", "k_batch", "scratch.1", "scratch.2"]} {
    %c1 = arith.constant 1 : index
    %stride = arith.index_cast %row : i64 to index
    %thread = gpu.thread_id x
    %next = arith.addi %thread, %c1 : index
    %number = arith.index_cast %page : i32 to index
    %place = arith.muli %number, %stride : index
    %far = arith.index_cast %batch : i64 to index
    %other = arith.muli %number, %far : index
    %at = arith.addi %place, %next : index
    %sum = arith.addi %at, %other : index
    %d:4 = simt.mma f16 a(%page, %page, %page, %page) b(%page, %page) c(%x, %x, %x, %x)
    memref.store %d#0, %out[%sum] : memref<?xf32>
    gpu.return
  }

  // A number that may be negative is not divided, or shifted, as one that is not; cut
  // at 0 it is. By 32 places nothing of 32 bits is shifted.
  // CHECK-LABEL: gpu.func @signs
  // CHECK: arith.divui %{{.*}}, %{{.*}} : index
  // CHECK: arith.maxsi %{{.*}}, %{{.*}} : i32
  // CHECK: arith.divui %{{.*}}, %{{.*}} : i32
  // CHECK: arith.shrui %{{.*}}, %{{.*}} : index
  // CHECK: arith.shrui %{{.*}}, %{{.*}} : i32
  gpu.func @signs(%any: i32, %out: memref<?xi32>) kernel {
    %c0 = arith.constant 0 : index
    %c7 = arith.constant 7 : index
    %c32 = arith.constant 32 : index
    %number = arith.index_cast %any : i32 to index
    %shared = arith.divui %number, %c7 : index
    memref.store %any, %out[%shared] : memref<?xi32>
    %natural = arith.maxsi %number, %c0 : index
    %seventh = arith.divui %natural, %c7 : index
    memref.store %any, %out[%seventh] : memref<?xi32>
    %gone = arith.shrui %natural, %c32 : index
    memref.store %any, %out[%gone] : memref<?xi32>
    %shifted = arith.shrui %natural, %c7 : index
    memref.store %any, %out[%shifted] : memref<?xi32>
    gpu.return
  }

  // Of either branch, and of a choice; a load of 32 bits may be anything in these.
  // CHECK-LABEL: gpu.func @choice
  // CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : i32
  // CHECK: arith.cmpi eq, %{{.*}}, %{{.*}} : i32
  // CHECK: %[[EITHER:.*]] = scf.if
  // CHECK: %[[NARROW:.*]] = arith.index_cast %[[EITHER]] : index to i32
  // CHECK: arith.minsi %{{.*}}, %{{.*}} : i32
  gpu.func @choice(%bit: i1, %out: memref<?xi32>) kernel {
    %c0 = arith.constant 0 : index
    %c5 = arith.constant 5 : index
    %number = memref.load %out[%c0] : memref<?xi32>
    %loaded = arith.index_cast %number : i32 to index
    %chosen = arith.select %bit, %loaded, %c5 : index
    %same = arith.cmpi eq, %chosen, %loaded : index
    %either = scf.if %same -> (index) {
      scf.yield %c5 : index
    } else {
      scf.yield %loaded : index
    }
    %least = arith.minsi %either, %c5 : index
    memref.store %number, %out[%least] : memref<?xi32>
    gpu.return
  }
}
