// kvc.allocate_layers, b = 3 and ratio 2: the last layer of three has 3/2, the first
// 2 * 3 - 3/2 = 9/2, the middle one 3. Floors 4 3 1 leave 1 for the largest remainder,
// 1/2 of layers 0 and 2: to the smaller. 5 + 3 + 1 = 3 * 3.
// RUN: split-file %s %t
// RUN: kvc-opt %t/line.mlir --interpret --trace --input %t/0of3.json | FileCheck %s --match-full-lines --check-prefix=FIRST
// FIRST:      %n = kvc.allocate_layers: kv_heads 1
// FIRST-NEXT: 5
// RUN: kvc-opt %t/line.mlir --interpret --trace --input %t/1of3.json | FileCheck %s --match-full-lines --check-prefix=MIDDLE
// MIDDLE:      %n = kvc.allocate_layers: kv_heads 1
// MIDDLE-NEXT: 3
// RUN: kvc-opt %t/line.mlir --interpret --trace --input %t/2of3.json | FileCheck %s --match-full-lines --check-prefix=LAST
// LAST:      %n = kvc.allocate_layers: kv_heads 1
// LAST-NEXT: 1

// Of a past of 4 the first layer cannot have 9/2: 4, and the last 2 * 3 - 4 = 2.
// RUN: kvc-opt %t/line.mlir --interpret --trace --input %t/full.json | FileCheck %s --match-full-lines --check-prefix=FULL
// FULL:      %n = kvc.allocate_layers: kv_heads 1
// FULL-NEXT: 4
// RUN: kvc-opt %t/line.mlir --interpret --trace --input %t/least.json | FileCheck %s --match-full-lines --check-prefix=LEAST
// LEAST:      %n = kvc.allocate_layers: kv_heads 1
// LEAST-NEXT: 2

// One layer has what it has; a ratio of 1 is no line.
// RUN: kvc-opt %t/line.mlir --interpret --trace --input %t/alone.json | FileCheck %s --match-full-lines --check-prefix=ALONE
// ALONE:      %n = kvc.allocate_layers: kv_heads 1
// ALONE-NEXT: 3
// RUN: kvc-opt %t/line.mlir --interpret --trace --param ratio=1 --input %t/2of3.json | FileCheck %s --match-full-lines --check-prefix=ALONE
// 3 / 1.2 = 5/2 and 7/2 of two layers: the half to the smaller, 4 and 2.
// RUN: kvc-opt %t/line.mlir --interpret --trace --param ratio=1.2 --input %t/1of2.json | FileCheck %s --match-full-lines --check-prefix=LEAST

//--- line.mlir
kvc.policy @layers {
  %ratio = kvc.param "ratio" = "2" : !kvc.fraction
  %s = kvc.norm l2 key : tensor<?x?xf32>
  %n = kvc.allocate_layers ratio(%ratio) : tensor<?xi32>
  %m = kvc.topk %s, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- 0of3.json
{"k": [[[0], [0], [0], [0], [0], [0], [0], [0]]], "budget": 3, "layers": 3, "layer": 0}
//--- 1of3.json
{"k": [[[0], [0], [0], [0], [0], [0], [0], [0]]], "budget": 3, "layers": 3, "layer": 1}
//--- 2of3.json
{"k": [[[0], [0], [0], [0], [0], [0], [0], [0]]], "budget": 3, "layers": 3, "layer": 2}
//--- full.json
{"k": [[[0], [0], [0], [0]]], "budget": 3, "layers": 3, "layer": 0}
//--- least.json
{"k": [[[0], [0], [0], [0]]], "budget": 3, "layers": 3, "layer": 2}
//--- alone.json
{"k": [[[0], [0], [0], [0]]], "budget": 3}
//--- 1of2.json
{"k": [[[0], [0], [0], [0], [0], [0], [0], [0]]], "budget": 3, "layers": 2, "layer": 1}
