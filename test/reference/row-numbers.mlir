// kvc.position row and kvc.count_rows: of head 0's five tokens 0, 2 and 4 have rows, of head
// 1's all. The last is the window's: in front of token 2 lies one row of head 0, behind it one.
// Tokens without a row stand where theirs would.
// RUN: split-file %s %t
// RUN: kvc-opt %t/rows.mlir --interpret --trace --input %t/five.json | FileCheck %s --match-full-lines
// CHECK:      %row = kvc.position: kv_heads 2, past 4
// CHECK-NEXT: 0: 0 1 1 2
// CHECK-NEXT: 1: 0 1 2 3
// CHECK-NEXT: %behind = kvc.position: kv_heads 2, past 4
// CHECK-NEXT: 0: 2 1 1 0
// CHECK-NEXT: 1: 4 3 2 1
// CHECK-NEXT: %past = kvc.count_rows: kv_heads 2
// CHECK-NEXT: 2 4
// CHECK-NEXT: %all = kvc.count_rows: kv_heads 2
// CHECK-NEXT: 3 5
// Scores are row - behind + past + all: 3 5 of head 0, 5 7 9 11 of head 1.
// CHECK:      scores 0: 3 nan 5 nan
// CHECK-NEXT: scores 1: 5 7 9 11
// CHECK-NEXT: kept 0: 2 4
// CHECK-NEXT: kept 1: 3 4

//--- rows.mlir
!i = tensor<?x?xi32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
kvc.policy @rows {
  %one = arith.constant 1 : index
  %row = kvc.position row : !i
  %behind = kvc.position row from_end : !i
  %past = kvc.count_rows : !c
  %all = kvc.count_rows all : !c
  %sum = arith.addi %past, %all : !c
  %sums = kvc.broadcast %sum : !c to !i
  %d = arith.subi %row, %behind : !i
  %x = arith.addi %d, %sums : !i
  %s = arith.sitofp %x : !i to !s
  %n = kvc.allocate uniform : !c
  %m = kvc.topk %s, %n : !s, !c -> tensor<?x?xi1>
  kvc.keep %m protect_last(%one) : tensor<?x?xi1>
}
//--- five.json
{"k": [[[0], [0], [0], [0], [0]], [[0], [0], [0], [0], [0]]], "budget": 2,
 "rows": [[1, 0, 1, 0, 1], [1, 1, 1, 1, 1]]}
