// kvc.budget, kvc.length, kvc.layer, kvc.layers and kvc.fraction: what the input says.
// RUN: split-file %s %t
// RUN: kvc-opt %t/scalars.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines
// CHECK:      %B = kvc.budget: 2
// CHECK-NEXT: %T = kvc.length: 3
// CHECK-NEXT: %l = kvc.layer: 4
// CHECK-NEXT: %L = kvc.layers: 6
// CHECK-NEXT: %f = kvc.fraction: 0.50
// 2 + 3 + 4 + 6 = 15, half of it rounded down.
// CHECK:      %n = kvc.scale_count: 7
// There is one layer, the first, where nothing else is said: 2 + 3 + 0 + 1 = 6.
// RUN: kvc-opt %t/scalars.mlir --interpret --trace --input %t/one.json | FileCheck %s --match-full-lines --check-prefix=ONE
// ONE:      %l = kvc.layer: 0
// ONE-NEXT: %L = kvc.layers: 1
// ONE:      %n = kvc.scale_count: 3

//--- scalars.mlir
kvc.policy @scalars {
  %B = kvc.budget
  %T = kvc.length
  %l = kvc.layer
  %L = kvc.layers
  %f = kvc.fraction "0.50"
  %1 = arith.addi %B, %T : index
  %2 = arith.addi %1, %l : index
  %3 = arith.addi %2, %L : index
  %n = kvc.scale_count %3 by(%f) : index
  %c = kvc.broadcast %n : index to tensor<?xi32>
  %s = kvc.norm l1 key : tensor<?x?xf32>
  %m = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- in.json
{"k": [[[5], [6], [7]]], "budget": 2, "layer": 4, "layers": 6}
//--- one.json
{"k": [[[5], [6], [7]]], "budget": 2}
