// kvc.vectors: token first in the input, channel first here; without the window.
// RUN: split-file %s %t
// RUN: kvc-opt %t/sides.mlir --interpret --trace --input %t/rows.json | FileCheck %s --match-full-lines
// CHECK:      %k = kvc.vectors: kv_heads 2, channel 2, past 2
// CHECK-NEXT: 0 0: 1 3
// CHECK-NEXT: 0 1: 2 4
// CHECK-NEXT: 1 0: 7 9
// CHECK-NEXT: 1 1: 8 nan
// CHECK-NEXT: %v = kvc.vectors: kv_heads 2, channel 2, past 2
// CHECK-NEXT: 0 0: 0 0
// CHECK-NEXT: 0 1: 0 -1
// CHECK:      %raw = kvc.vectors: kv_heads 2, channel 2, past 2
// CHECK-NEXT: 0 0: 0 0.5

//--- sides.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @vectors {
  %one = arith.constant 1 : index
  %k = kvc.vectors key : !r
  %v = kvc.vectors value : !r
  %raw = kvc.vectors raw_key : !r
  %1 = arith.addf %k, %v : !r
  %2 = arith.addf %1, %raw : !r
  %s = kvc.reduce sum channels %2 : !r -> !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%one) : tensor<?x?xi1>
}
//--- rows.json
{"k": [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, "nan"], [5, 6]]],
 "v": [[[0, 0], [0, -1], [0, 0]], [[0, 0], [0, 0], [0, 0]]],
 "raw_k": [[[0, 0], [0.5, 0], [0, 0]], [[0, 0], [0, 0], [0, 0]]],
 "budget": 2}
