// RUN: kvc-opt %s --pass-pipeline="builtin.module(kvc.policy(kvc-bind-params,kvc-fold-scalars))" | FileCheck %s

// Sizes are computed; tensors stay, also those that are the same everywhere.
// CHECK-LABEL: kvc.policy @sizes
kvc.policy @sizes {
  %window = kvc.param "window" = 16 : index
  %two = arith.constant 2 : index
  // CHECK-DAG: %[[TWICE:.*]] = arith.constant 32 : index
  %twice = arith.muli %window, %two : index
  // CHECK-NOT: kvc.norm
  %unused = kvc.norm l1 value : tensor<?x?xf32>
  %n = kvc.vectors key : tensor<?x?x?xf32>
  // CHECK: kvc.broadcast {{.*}} : f32 to tensor<?x?xf32>
  %half = kvc.fill 0.5 : tensor<?x?xf32>
  // CHECK: arith.cmpf true
  %always = arith.cmpf true, %half, %half : tensor<?x?xf32>
  %p = kvc.position : tensor<?x?xi32>
  // CHECK: arith.cmpi eq
  %same = arith.cmpi eq, %p, %p : tensor<?x?xi32>
  %m = arith.andi %always, %same : tensor<?x?xi1>
  // CHECK: kvc.keep {{.*}} protect_last(%[[TWICE]])
  kvc.keep %m protect_last(%twice) : tensor<?x?xi1>
}
