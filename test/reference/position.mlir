// kvc.position: of 5 tokens the last is the window; token t has t in front of it and
// 4 - t behind it, the window's included.
// RUN: split-file %s %t
// RUN: kvc-opt %t/both.mlir --interpret --trace --input %t/five.json | FileCheck %s --match-full-lines
// CHECK:      %front = kvc.position: one_head 1, past 4
// CHECK-NEXT: 0: 0 1 2 3
// CHECK-NEXT: %back = kvc.position: one_head 1, past 4
// CHECK-NEXT: 0: 4 3 2 1
// CHECK:      kept 0: 0 4
// CHECK-NEXT: kept 1: 0 4

//--- both.mlir
!i = tensor<?x?xi32>
!s = tensor<?x?xf32>
kvc.policy @position {
  %one = arith.constant 1 : index
  %front = kvc.position : !i
  %back = kvc.position from_end : !i
  %d = arith.subi %back, %front : !i
  %s = arith.sitofp %d : !i to !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%one) : tensor<?x?xi1>
}
//--- five.json
{"k": [[[0], [0], [0], [0], [0]], [[0], [0], [0], [0], [0]]], "budget": 2}
