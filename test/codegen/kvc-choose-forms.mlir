// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(kvc-choose-forms))" | FileCheck %s --check-prefix=PLAIN
// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(kvc-choose-forms{warpgroups=true}))" | FileCheck %s --check-prefix=FORMS
// RUN: kvc-opt %s --pass-pipeline="builtin.module(gpu.module(kvc-choose-forms{warpgroups=true only-other=true}))" | FileCheck %s --check-prefix=ONLY

gpu.module @kernels {
  // PLAIN: gpu.func @one()
  // PLAIN-NEXT: simt.sync_warp
  // PLAIN: gpu.func @two()
  // PLAIN-NOT: gpu.func
  // FORMS-NOT: sync_warp
  // FORMS: gpu.func @one()
  // FORMS-NEXT: simt.publish
  // FORMS: gpu.func @two()
  // FORMS-NOT: gpu.func
  // ONLY-NOT: @two
  // ONLY: gpu.func @one()
  // ONLY-NEXT: simt.publish
  // ONLY-NOT: gpu.func
  gpu.func @one() {
    simt.sync_warp
    gpu.return
  }
  gpu.func @one_warpgroups() attributes {kvc.warpgroups_of = "one"} {
    simt.publish
    gpu.return
  }
  gpu.func @two() {
    gpu.return
  }
}
