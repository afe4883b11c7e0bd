// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(convert-simt-to-nvvm))" | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @warp
  // CHECK: llvm.nvvm.ex2.approx.ftz.f32
  // CHECK: llvm.nvvm.vote.ballot.sync
  // CHECK: llvm.nvvm.redux.sync.add
  // CHECK: nvvm.bar.warp.sync
  // CHECK: llvm.nvvm.mma.m16n8k16.row.col.bf16
  // CHECK: llvm.nvvm.mma.m16n8k16.row.col.f32.f32
  // CHECK-NOT: simt.
  gpu.func @warp(%x: f32, %a: i32, %bit: i1) -> (f32, i32, f32, f32) {
    %y = simt.exp2 %x
    %votes = simt.ballot %bit
    %sum = simt.sum %votes
    simt.sync_warp
    %d:4 = simt.mma bf16 a(%a, %a, %a, %a) b(%a, %a) c(%x, %x, %x, %x)
    %e:4 = simt.mma f16 a(%a, %a, %a, %a) b(%a, %a) c(%x, %x, %x, %x)
    gpu.return %y, %sum, %d#0, %e#1 : f32, i32, f32, f32
  }

  // Its team's barrier: the block's is 0.
  // CHECK-LABEL: gpu.func @team
  // CHECK: %[[ONE:.*]] = arith.constant 1 : i32
  // CHECK: %[[ID:.*]] = arith.addi %{{.*}}, %[[ONE]]
  // CHECK: %[[THREADS:.*]] = arith.constant 64 : i32
  // CHECK: nvvm.barrier id = %[[ID]] number_of_threads = %[[THREADS]]
  gpu.func @team(%team: i32) {
    simt.team_barrier %team of 64
    gpu.return
  }

  // Blocks of a cluster: what places share is mapped to the first block, a constant is added
  // behind it.
  // CHECK-LABEL: gpu.func @cluster
  // CHECK: nvvm.cluster.arrive {aligned}
  // CHECK: nvvm.cluster.wait {aligned}
  // CHECK: %[[FIRST:.*]] = arith.constant 0 : i32
  // CHECK: %[[THERE:.*]] = nvvm.mapa %{{.*}}, %[[FIRST]]
  // CHECK: %[[AT:.*]] = llvm.getelementptr %[[THERE]]
  // CHECK: llvm.store %{{.*}}, %[[AT]] : f32, !llvm.ptr<7>
  gpu.func @cluster(%x: f32, %i: index)
      workgroup(%sums: memref<64xf32, #gpu.address_space<workgroup>>) {
    %c16 = arith.constant 16 : index
    %at = arith.addi %i, %c16 : index
    simt.cluster_barrier
    simt.store_to_first %x, %sums[%at] : memref<64xf32, #gpu.address_space<workgroup>>
    gpu.return
  }

  // Four warps together: two panels of 64 columns, of which a step takes 16. The first one
  // begins with zeros.
  // CHECK-LABEL: gpu.func @warpgroup
  // CHECK: llvm.inline_asm has_side_effects "fence.proxy.async.shared::cta;"
  // CHECK: llvm.inline_asm has_side_effects "{
  // CHECK-SAME: wgmma.fence.sync.aligned;
  // CHECK-SAME: shr.u32 low, $[[AT:[0-9]+]], 4;
  // CHECK-SAME: add.s32 at, low, 0;
  // CHECK-SAME: setp.ne.b32 p, 0, 0;
  // CHECK-SAME: wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0,$1,$2,$3}, {$4,$5,$6,$7}, b, p, 1, 1, 0;
  // CHECK-SAME: add.s32 at, low, 2;
  // CHECK-SAME: setp.ne.b32 p, 1, 0;
  // CHECK-SAME: m64n8k16.f32.bf16.bf16 {$0,$1,$2,$3}, {$8,$9,$10,$11}, b, p, 1, 1, 0;
  // CHECK-SAME: add.s32 at, low, 4;
  // CHECK-SAME: add.s32 at, low, 6;
  // CHECK-SAME: add.s32 at, low, 64;
  // CHECK-SAME: wgmma.commit_group.sync.aligned;
  // CHECK-SAME: "=&f,=&f,=&f,=&f,r,
  // CHECK: llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 0;"
  // CHECK: llvm.inline_asm has_side_effects "", "=f,=f,=f,=f,0,1,2,3,~{memory}"
  // CHECK-NOT: simt.
  gpu.func @warpgroup(%a: i32, %i: index) -> (f32)
      workgroup(%rows: memref<1024xbf16, #gpu.address_space<workgroup>>) {
    simt.publish
    %d:4 = simt.group_multiply a(%a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a) b %rows[%i] : memref<1024xbf16, #gpu.address_space<workgroup>> -> f32, f32, f32, f32
    %e:4 = simt.group_wait(%d#0, %d#1, %d#2, %d#3) : f32, f32, f32, f32 -> f32, f32, f32, f32
    gpu.return %e#3 : f32
  }

  // A product of 32 bits by 32, and a sum with 64, is one instruction; of 64 bits it is
  // LLVM's.
  // CHECK-LABEL: gpu.func @wide
  // CHECK-SAME: %[[A:.*]]: i32, %[[B:.*]]: i32, %[[C:.*]]: index)
  // CHECK: %[[SUM:.*]] = arith.index_cast %[[C]] : index to i64
  // CHECK: llvm.inline_asm "mad.wide.s32 $0, $1, $2, $3;", "=l,r,r,l" %[[A]], %[[B]], %[[SUM]]
  // CHECK: arith.muli %{{.*}}, %[[C]] : index
  gpu.func @wide(%a: i32, %b: i32, %c: index) -> (index, index) {
    %x = arith.index_cast %a : i32 to index
    %y = arith.index_cast %b : i32 to index
    %product = arith.muli %x, %y : index
    %sum = arith.addi %c, %product : index
    %square = arith.muli %x, %c : index
    %other = arith.addi %square, %c : index
    gpu.return %sum, %other : index, index
  }

  // Copies of 16 bytes go past L1.
  // CHECK-LABEL: gpu.func @copy
  // CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
  // CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 4, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>
  // CHECK: nvvm.cp.async.commit.group
  // CHECK: nvvm.cp.async.wait.group 1
  // CHECK-NOT: simt.
  gpu.func @copy(%from: memref<?xbf16, #gpu.address_space<global>>, %i: index)
      workgroup(%to: memref<64xbf16, #gpu.address_space<workgroup>>) {
    simt.async_copy 8 of %from[%i] to %to[%i] : memref<?xbf16, #gpu.address_space<global>> to memref<64xbf16, #gpu.address_space<workgroup>>
    simt.async_copy 2 of %from[%i] to %to[%i] : memref<?xbf16, #gpu.address_space<global>> to memref<64xbf16, #gpu.address_space<workgroup>>
    simt.async_commit
    simt.async_wait 1
    gpu.return
  }

  // What an index has on the right of a sum is added to the pointer.
  // CHECK-LABEL: gpu.func @copy_behind
  // CHECK: llvm.getelementptr %{{.*}}[2560] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  // CHECK: nvvm.cp.async.shared.global
  gpu.func @copy_behind(%from: memref<?xbf16, #gpu.address_space<global>>, %i: index)
      workgroup(%to: memref<2048xbf16, #gpu.address_space<workgroup>>) {
    %behind = arith.constant 1280 : index
    %j = arith.addi %i, %behind : index
    simt.async_copy 8 of %from[%i] to %to[%j] : memref<?xbf16, #gpu.address_space<global>> to memref<2048xbf16, #gpu.address_space<workgroup>>
    gpu.return
  }
}
