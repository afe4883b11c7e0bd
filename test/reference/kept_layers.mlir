// kvc.kept_layers: the input's counts of the past; in layer 2 the third of three, so a
// share is a third of it.
// RUN: split-file %s %t
// RUN: kvc-opt %t/both.mlir --interpret --trace --input %t/third.json | FileCheck %s --match-full-lines
// CHECK:      %count = kvc.kept_layers: one_head 1, past 3
// CHECK-NEXT: 0: 0 2 1
// CHECK-NEXT: %share = kvc.kept_layers: one_head 1, past 3
// CHECK-NEXT: 0: 0 0.666666667 0.333333333
// In the first layer nothing has been kept, and the share divides by 1.
// RUN: kvc-opt %t/both.mlir --interpret --trace --input %t/first.json | FileCheck %s --match-full-lines --check-prefix=FIRST
// FIRST:      %share = kvc.kept_layers: one_head 1, past 3
// FIRST-NEXT: 0: 0 0 0

//--- both.mlir
!s = tensor<?x?xf32>
kvc.policy @kept_layers {
  %one = arith.constant 1 : index
  %count = kvc.kept_layers : !s
  %share = kvc.kept_layers share : !s
  %s = arith.addf %count, %share : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%one) : tensor<?x?xi1>
}
//--- third.json
{"k": [[[0], [0], [0], [0]]], "budget": 2, "layers": 4, "layer": 2, "kept_layers": [0, 2, 1, 2]}
//--- first.json
{"k": [[[0], [0], [0], [0]]], "budget": 2, "layers": 4, "kept_layers": [0, 0, 0, 0]}
