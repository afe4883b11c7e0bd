// kvc.norm: 3, 4 has length 5 and sum 7, whatever the signs; 0 has 0.
// RUN: split-file %s %t
// RUN: kvc-opt %t/norms.mlir --interpret --trace --input %t/rows.json | FileCheck %s --match-full-lines
// CHECK:      %l2 = kvc.norm: kv_heads 2, past 3
// CHECK-NEXT: 0: 5 5 0
// CHECK-NEXT: 1: inf nan 1
// CHECK-NEXT: %l1 = kvc.norm: kv_heads 2, past 3
// CHECK-NEXT: 0: 7 7 0
// CHECK-NEXT: 1: inf nan 1
// CHECK-NEXT: %value = kvc.norm: kv_heads 2, past 3
// CHECK-NEXT: 0: 2 4 6
// CHECK-NEXT: 1: 8 10 12
// CHECK-NEXT: %raw = kvc.norm: kv_heads 2, past 3
// CHECK-NEXT: 0: 13 0 0
// CHECK-NEXT: 1: 0 0 17

//--- norms.mlir
!s = tensor<?x?xf32>
kvc.policy @norm {
  %one = arith.constant 1 : index
  %l2 = kvc.norm l2 key : !s
  %l1 = kvc.norm l1 key : !s
  %value = kvc.norm l1 value : !s
  %raw = kvc.norm l2 raw_key : !s
  %1 = arith.addf %l2, %l1 : !s
  %2 = arith.addf %value, %raw : !s
  %s = arith.addf %1, %2 : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%one) : tensor<?x?xi1>
}
//--- rows.json
{"k": [[[3, 4], [-3, 4], [0, 0], [1, 1]], [["-inf", 0], ["nan", 0], [0, -1], [1, 1]]],
 "v": [[[1, 1], [2, 2], [3, 3], [0, 0]], [[4, 4], [5, 5], [6, 6], [0, 0]]],
 "raw_k": [[[5, -12], [0, 0], [0, 0], [0, 0]], [[0, 0], [0, 0], [8, 15], [0, 0]]],
 "budget": 2}
