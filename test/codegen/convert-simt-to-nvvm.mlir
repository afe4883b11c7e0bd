// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(convert-simt-to-nvvm))" | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @warp
  // CHECK: llvm.nvvm.ex2.approx.ftz.f32
  // CHECK: llvm.nvvm.vote.ballot.sync
  // CHECK: nvvm.bar.warp.sync
  // CHECK: llvm.nvvm.mma.m16n8k16.row.col.bf16
  // CHECK: llvm.nvvm.mma.m16n8k16.row.col.f32.f32
  // CHECK-NOT: simt.
  gpu.func @warp(%x: f32, %a: i32, %bit: i1) -> (f32, i32, f32, f32) {
    %y = simt.exp2 %x
    %votes = simt.ballot %bit
    simt.sync_warp
    %d:4 = simt.mma bf16 a(%a, %a, %a, %a) b(%a, %a) c(%x, %x, %x, %x)
    %e:4 = simt.mma f16 a(%a, %a, %a, %a) b(%a, %a) c(%x, %x, %x, %x)
    gpu.return %y, %votes, %d#0, %e#1 : f32, i32, f32, f32
  }
}
