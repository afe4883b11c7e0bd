// RUN: kvc-opt %s --convert-gpu-to-warps 2>%t | FileCheck %s
// RUN: FileCheck --check-prefix=REMARK %s < %t

// What is the same in all lanes stays a scalar, what grows by one from lane to lane is
// one access, and nobody waits at a barrier of its own.
// REMARK: kernel copy for a warp: {{[0-9]+}} values are uniform, {{[0-9]+}} linear, {{[0-9]+}} vectors; 0 branches and loops under masks; 2 accesses together, 0 lane by lane
// CHECK-LABEL: func.func private @copy.warp
// CHECK-SAME: attributes {kvc.warp_of = "copy"}
// CHECK: %[[FIRST:.*]] = arith.addi %{{.*}}, %{{.*}} : i64
// CHECK: llvm.getelementptr %{{.*}}[%[[FIRST]]]
// CHECK: %[[MOVED:.*]] = llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<32xf32>
// CHECK: llvm.store %[[MOVED]], %{{.*}} {alignment = 4 : i64} : vector<32xf32>
// CHECK-NOT: kvc_
// CHECK: return

// A loop with bounds that are the same runs as it does; what it carries is a vector
// where lanes differ.
// CHECK-LABEL: func.func private @sum.warp
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (vector<32xf32>, f32)
// CHECK-NOT: scf.while

// Lanes that part: the branch runs if any lane takes it, and its store is masked.
// CHECK-LABEL: func.func private @some.warp
// CHECK: %[[BELOW:.*]] = arith.cmpi slt, %{{.*}}, %{{.*}} : vector<32xi32>
// CHECK: %[[WORD:.*]] = vector.bitcast %[[BELOW]] : vector<32xi1> to vector<1xi32>
// CHECK: %[[BITS:.*]] = vector.extract %[[WORD]][0]
// CHECK: %[[ANY:.*]] = arith.cmpi ne, %[[BITS]]
// CHECK: scf.if %[[ANY]]
// CHECK: llvm.intr.masked.store %{{.*}}, %{{.*}}, %[[BELOW]]

// So does a loop, until the last lane has left. What others carry stays.
// CHECK-LABEL: func.func private @strided.warp
// CHECK: scf.while
// CHECK: arith.cmpi slt, %{{.*}}, %{{.*}} : vector<32xi32>
// CHECK: scf.condition(%{{.*}})
// CHECK: llvm.intr.masked.load
// CHECK: %[[MORE:.*]] = arith.addf
// CHECK: arith.select %{{.*}}, %[[MORE]], %{{.*}} : vector<32xi1>, vector<32xf32>

// Lanes that go wherever a table says are looked at one by one; what 64-bit lanes have no
// instruction for is a call.
// CHECK-LABEL: func.func private @anywhere.warp
// CHECK: call @kvc_gather_i32
// CHECK: call @kvc_wide_muli_by(%{{.*}}, %{{.*}}) : (vector<32xi64>, i64) -> vector<32xi64>
// CHECK: call @kvc_scatter_i32

// A sum over the lanes is the same in all of them, and one lane stores it; barriers meet
// the block's other warps.
// CHECK-LABEL: func.func private @reduce.warp
// CHECK-SAME: kvc.barriers
// CHECK-COUNT-5: vector.shuffle
// CHECK: vector.extract %{{.*}}[0] : f32 from vector<32xf32>
// CHECK: llvm.call
// CHECK: llvm.store %{{.*}} : f32, !llvm.ptr

// So do those of teams.
// CHECK-LABEL: func.func private @team.warp
// CHECK-SAME: kvc.barriers
// CHECK: llvm.call

// CHECK-LABEL: func.func private @votes.warp
// CHECK: %[[VOTES:.*]] = vector.bitcast %{{.*}} : vector<32xi1> to vector<1xi32>
// CHECK: vector.extract %[[VOTES]][0] : i32

// So is the sum of numbers.
// CHECK-LABEL: func.func private @lane_sum.warp
// CHECK: %[[SUM:.*]] = vector.reduction <add>, %{{.*}} : vector<32xi32> into i32
// CHECK: llvm.store %[[SUM]], %{{.*}} : i32

// A quotient by a multiple of 32 is the same in all lanes, and the remainder linear; so is
// a product with any number.
// CHECK-LABEL: func.func private @parts.warp
// CHECK: %[[ROW:.*]] = arith.divui %[[THREAD:.*]], %[[BY:.*]] : i64
// CHECK: %[[PLACE:.*]] = arith.remui %[[THREAD]], %[[BY]] : i64
// CHECK: %[[AT:.*]] = arith.addi %[[PLACE]], %[[ROW]] : i64
// CHECK: llvm.getelementptr %{{.*}}[%[[AT]]]
// CHECK: llvm.store %{{.*}} {alignment = 4 : i64} : vector<32xf32>
// CHECK: arith.muli %[[THREAD]]
// CHECK: dense<[0, 600000, 1200000,

// Memory that lanes have for themselves: an element of all lanes is a row, of which those
// that are not active keep theirs. What nobody needs at one place is not asked for.
// REMARK: kernel own for a warp: {{.*}} 1 branches and loops under masks; 5 accesses together, 0 lane by lane
// CHECK-LABEL: func.func private @own.warp
// CHECK: %[[OWN:.*]] = llvm.alloca %{{.*}} x i8 {alignment = 64 : i64}
// CHECK: %[[ROW:.*]] = llvm.getelementptr %[[OWN]][%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, vector<32xi32>
// CHECK: llvm.store %{{.*}}, %[[ROW]] {alignment = 64 : i64} : vector<32xf32>
// CHECK: "llvm.intr.prefetch"
// CHECK-NOT: "llvm.intr.prefetch"
// CHECK: llvm.intr.masked.store %{{.*}}, %{{.*}}, %{{.*}} {alignment = 64 : i32}
// CHECK: llvm.load %{{.*}} {alignment = 64 : i64} : !llvm.ptr -> vector<32xf32>

// REMARK: kernel waits has no form for a warp: 'gpu.barrier' is reached by some lanes only
// REMARK: kernel steps has no form for a warp: 'scf.for' must have the same step in all lanes
// REMARK: kernel down has no form for a warp: 'gpu.shuffle' must be xor or up, by a constant
// REMARK: kernel strange has no form for a warp: 'memref.dim' is not known
// REMARK: kernel tall has no form for a warp: 'gpu.thread_id' has one dimension on the host
// REMARK: kernel most has no form for a warp: 'memref.atomic_rmw' must add, be an or or a maximum, of 32 bits
// REMARK: kernel part has no form for a warp: 'memref.reinterpret_cast' must be the whole memory
// REMARK: kernel above has no form for a warp: 'scf.for' must compare signed numbers
// REMARK: kernel any has no form for a warp: 'vector.extract' must have a constant position
// REMARK: kernel four has no form for a warp: 'arith.addf' differs by lane and is a vector in each
// REMARK: kernel apart has no form for a warp: 'memref.load' must ask for the same element in all lanes
// REMARK: kernel parted has no form for a warp: 'memref.store' must ask for the same element in all lanes
// REMARK: kernel halves has no form for a warp: 'memref.alloca' must have a constant number of words of 32 bits
// CHECK-NOT: @{{waits|steps|down|strange|tall|most|part|above|any|four}}.warp
gpu.module @kernels {
  gpu.func @copy(%from: memref<100xf32>, %to: memref<100xf32>) kernel {
    %c3 = arith.constant 3 : index
    %t = gpu.thread_id x
    %i = arith.addi %t, %c3 : index
    %x = memref.load %from[%i] : memref<100xf32>
    memref.store %x, %to[%t] : memref<100xf32>
    gpu.return
  }
  gpu.func @sum(%from: memref<100xf32>, %to: memref<100xf32>, %n: i64) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %end = arith.index_cast %n : i64 to index
    %t = gpu.thread_id x
    %all:2 = scf.for %i = %c0 to %end step %c1 iter_args(%a = %zero, %b = %zero) -> (f32, f32) {
      %j = arith.addi %i, %t : index
      %x = memref.load %from[%j] : memref<100xf32>
      %y = memref.load %from[%i] : memref<100xf32>
      %c = arith.addf %a, %x : f32
      %d = arith.addf %b, %y : f32
      scf.yield %c, %d : f32, f32
    }
    %s = arith.addf %all#0, %all#1 : f32
    memref.store %s, %to[%t] : memref<100xf32>
    gpu.return
  }
  gpu.func @some(%to: memref<100xf32>, %n: i64) kernel {
    %one = arith.constant 1.0 : f32
    %end = arith.index_cast %n : i64 to index
    %t = gpu.thread_id x
    %is = arith.cmpi slt, %t, %end : index
    scf.if %is {
      memref.store %one, %to[%t] : memref<100xf32>
    }
    gpu.return
  }
  gpu.func @strided(%from: memref<100xf32>, %to: memref<100xf32>, %n: i64) kernel {
    %c64 = arith.constant 64 : index
    %zero = arith.constant 0.0 : f32
    %end = arith.index_cast %n : i64 to index
    %t = gpu.thread_id x
    %s = scf.for %i = %t to %end step %c64 iter_args(%a = %zero) -> (f32) {
      %x = memref.load %from[%i] : memref<100xf32>
      %b = arith.addf %a, %x : f32
      scf.yield %b : f32
    }
    memref.store %s, %to[%t] : memref<100xf32>
    gpu.return
  }
  gpu.func @anywhere(%table: memref<100xi32>, %to: memref<100xi32>, %row: i64) kernel {
    %t = gpu.thread_id x
    %n = memref.load %table[%t] : memref<100xi32>
    %i = arith.index_cast %n : i32 to index
    %x = memref.load %table[%i] : memref<100xi32>
    %size = arith.index_cast %row : i64 to index
    %j = arith.muli %i, %size : index
    memref.store %n, %to[%j] : memref<100xi32>
    memref.store %x, %to[%t] : memref<100xi32>
    gpu.return
  }
  gpu.func @reduce(%from: memref<100xf32>, %to: memref<100xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : i32
    %m1 = arith.constant 1 : i32
    %m2 = arith.constant 2 : i32
    %m4 = arith.constant 4 : i32
    %m8 = arith.constant 8 : i32
    %m16 = arith.constant 16 : i32
    %t = gpu.thread_id x
    %x = memref.load %from[%t] : memref<100xf32>
    %y1, %p1 = gpu.shuffle xor %x, %m1, %c32 : f32
    %x1 = arith.addf %x, %y1 : f32
    %y2, %p2 = gpu.shuffle xor %x1, %m2, %c32 : f32
    %x2 = arith.addf %x1, %y2 : f32
    %y4, %p4 = gpu.shuffle xor %x2, %m4, %c32 : f32
    %x4 = arith.addf %x2, %y4 : f32
    %y8, %p8 = gpu.shuffle xor %x4, %m8, %c32 : f32
    %x8 = arith.addf %x4, %y8 : f32
    %y16, %p16 = gpu.shuffle xor %x8, %m16, %c32 : f32
    %x16 = arith.addf %x8, %y16 : f32
    gpu.barrier
    memref.store %x16, %to[%c0] : memref<100xf32>
    gpu.return
  }
  gpu.func @team(%from: memref<100xf32>, %to: memref<f32>) kernel {
    %c0 = arith.constant 0 : index
    %team = arith.constant 0 : i32
    %x = memref.load %from[%c0] : memref<100xf32>
    simt.team_barrier %team of 32
    memref.store %x, %to[] : memref<f32>
    gpu.return
  }
  gpu.func @votes(%from: memref<100xf32>, %to: memref<i32>) kernel {
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %x = memref.load %from[%t] : memref<100xf32>
    %is = arith.cmpf ogt, %x, %zero : f32
    %all = simt.ballot %is
    memref.store %all, %to[] : memref<i32>
    gpu.return
  }
  gpu.func @lane_sum(%from: memref<100xi32>, %to: memref<i32>) kernel {
    %t = gpu.thread_id x
    %x = memref.load %from[%t] : memref<100xi32>
    %all = simt.sum %x
    memref.store %all, %to[] : memref<i32>
    gpu.return
  }
  gpu.func @parts(%to: memref<100xf32>, %far: memref<100xindex>) kernel {
    %c96 = arith.constant 96 : index
    %c600000 = arith.constant 600000 : index
    %one = arith.constant 1.0 : f32
    %t = gpu.thread_id x
    %row = arith.divui %t, %c96 : index
    %place = arith.remui %t, %c96 : index
    %at = arith.addi %place, %row : index
    memref.store %one, %to[%at] : memref<100xf32>
    %x = arith.muli %t, %c600000 : index
    memref.store %x, %far[%t] : memref<100xindex>
    gpu.return
  }
  gpu.func @own(%from: memref<100xf32>, %to: memref<100xf32>) kernel {
    %i = gpu.block_id x
    %c9 = arith.constant 9 : index
    %own = memref.alloca() : memref<16xf32>
    %t = gpu.thread_id x
    %x = memref.load %from[%t] : memref<100xf32>
    memref.store %x, %own[%i] : memref<16xf32>
    memref.prefetch %from[%i], read, locality<3>, data : memref<100xf32>
    memref.prefetch %from[%t], read, locality<3>, data : memref<100xf32>
    %few = arith.cmpi ult, %t, %c9 : index
    scf.if %few {
      %twice = arith.addf %x, %x : f32
      memref.store %twice, %own[%i] : memref<16xf32>
    }
    %y = memref.load %own[%i] : memref<16xf32>
    memref.store %y, %to[%t] : memref<100xf32>
    gpu.return
  }
  gpu.func @waits(%n: i64) kernel {
    %end = arith.index_cast %n : i64 to index
    %t = gpu.thread_id x
    %is = arith.cmpi slt, %t, %end : index
    scf.if %is {
      gpu.barrier
    }
    gpu.return
  }
  gpu.func @steps(%to: memref<100xf32>) kernel {
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %one = arith.constant 1.0 : f32
    %t = gpu.thread_id x
    %s = arith.addi %t, %c1 : index
    scf.for %i = %c1 to %c64 step %s {
      memref.store %one, %to[%i] : memref<100xf32>
    }
    gpu.return
  }
  gpu.func @down(%to: memref<100xf32>) kernel {
    %c32 = arith.constant 32 : i32
    %m1 = arith.constant 1 : i32
    %t = gpu.thread_id x
    %x = memref.load %to[%t] : memref<100xf32>
    %y, %p = gpu.shuffle down %x, %m1, %c32 : f32
    memref.store %y, %to[%t] : memref<100xf32>
    gpu.return
  }
  gpu.func @strange(%to: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %one = arith.constant 1.0 : f32
    %n = memref.dim %to, %c0 : memref<?xf32>
    memref.store %one, %to[%n] : memref<?xf32>
    gpu.return
  }
  gpu.func @tall(%to: memref<100xf32>) kernel {
    %one = arith.constant 1.0 : f32
    %t = gpu.thread_id y
    memref.store %one, %to[%t] : memref<100xf32>
    gpu.return
  }
  gpu.func @most(%to: memref<100xi32>) kernel {
    %one = arith.constant 1 : i32
    %t = gpu.thread_id x
    %old = memref.atomic_rmw mins %one, %to[%t] : (i32, memref<100xi32>) -> i32
    gpu.return
  }
  gpu.func @part(%from: memref<100xf32>, %to: memref<100xf32>) kernel {
    %t = gpu.thread_id x
    %view = memref.reinterpret_cast %from to offset: [1], sizes: [50], strides: [1] : memref<100xf32> to memref<50xf32, strided<[1], offset: 1>>
    %x = memref.load %view[%t] : memref<50xf32, strided<[1], offset: 1>>
    memref.store %x, %to[%t] : memref<100xf32>
    gpu.return
  }
  gpu.func @above(%to: memref<100xf32>) kernel {
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %one = arith.constant 1.0 : f32
    scf.for unsigned %i = %c1 to %c64 step %c1 {
      memref.store %one, %to[%i] : memref<100xf32>
    }
    gpu.return
  }
  gpu.func @any(%from: memref<100xf32>, %to: memref<100xf32>, %n: index) kernel {
    %t = gpu.thread_id x
    %four = vector.load %from[%t] : memref<100xf32>, vector<4xf32>
    %x = vector.extract %four[%n] : f32 from vector<4xf32>
    memref.store %x, %to[%t] : memref<100xf32>
    gpu.return
  }
  gpu.func @four(%from: memref<100xf32>, %to: memref<100xf32>) kernel {
    %t = gpu.thread_id x
    %four = vector.load %from[%t] : memref<100xf32>, vector<4xf32>
    %sum = arith.addf %four, %four : vector<4xf32>
    vector.store %sum, %to[%t] : memref<100xf32>, vector<4xf32>
    gpu.return
  }
  gpu.func @apart(%to: memref<100xf32>) kernel {
    %own = memref.alloca() : memref<64xf32>
    %t = gpu.thread_id x
    %x = memref.load %own[%t] : memref<64xf32>
    memref.store %x, %to[%t] : memref<100xf32>
    gpu.return
  }
  gpu.func @parted(%from: memref<100xf32>) kernel {
    %own = memref.alloca() : memref<64xf32>
    %t = gpu.thread_id x
    %x = memref.load %from[%t] : memref<100xf32>
    memref.store %x, %own[%t] : memref<64xf32>
    gpu.return
  }
  gpu.func @halves(%x: f16) kernel {
    %i = arith.constant 3 : index
    %own = memref.alloca() : memref<64xf16>
    memref.store %x, %own[%i] : memref<64xf16>
    gpu.return
  }
}
