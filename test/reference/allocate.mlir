// kvc.allocate uniform: B - min(w, B) for each KV head.
// RUN: split-file %s %t
// RUN: kvc-opt %t/uniform.mlir --interpret --trace --input %t/five.json | FileCheck %s --match-full-lines
// CHECK:      %n = kvc.allocate: kv_heads 2
// CHECK-NEXT: 3 3
// CHECK:      kept 0: 0 1 2 4 5
// CHECK-NEXT: kept 1: 0 1 2 4 5
// A window of 2 and a budget of 1: nothing is left for the past, the last token stays.
// RUN: kvc-opt %t/uniform.mlir --interpret --trace --input %t/one.json | FileCheck %s --match-full-lines --check-prefix=ONE
// ONE:      %n = kvc.allocate: kv_heads 2
// ONE-NEXT: 0 0
// ONE:      kept 0: 5
// ONE-NEXT: kept 1: 5

//--- uniform.mlir
kvc.policy @allocate {
  %two = arith.constant 2 : index
  %s = kvc.norm l2 key : tensor<?x?xf32>
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%two) : tensor<?x?xi1>
}
//--- five.json
{"k": [[[0], [0], [0], [0], [0], [0]], [[0], [0], [0], [0], [0], [0]]], "budget": 5}
//--- one.json
{"k": [[[0], [0], [0], [0], [0], [0]], [[0], [0], [0], [0], [0], [0]]], "budget": 1}
