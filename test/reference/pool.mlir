// kvc.pool: neighbours that do not exist are left out, or counted as padding by mean.
// RUN: split-file %s %t
// RUN: kvc-opt %t/scores.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines

// Scores 1 5 2 0 and NaN -1 -1 4.
// CHECK:      %max = kvc.pool: kv_heads 2, past 4
// CHECK-NEXT: 0: 5 5 5 2
// CHECK-NEXT: 1: nan nan 4 4
// (1 + 5) / 2, (1 + 5 + 2) / 3, (5 + 2 + 0) / 3, (2 + 0) / 2.
// CHECK-NEXT: %mean = kvc.pool: kv_heads 2, past 4
// CHECK-NEXT: 0: 3 2.66666667 2.33333333 1
// CHECK-NEXT: 1: nan nan 0.666666667 1.5
// The same over 3 at the ends too.
// CHECK-NEXT: %padded = kvc.pool: kv_heads 2, past 4
// CHECK-NEXT: 0: 2 2.66666667 2.33333333 0.666666667
// CHECK-NEXT: 1: nan nan 0.666666667 1
// Wider than the past: all of it everywhere. The window is not a neighbour: its 7 and -7
// are nowhere.
// CHECK-NEXT: %wide = kvc.pool: kv_heads 2, past 4
// CHECK-NEXT: 0: 5 5 5 5
// CHECK-NEXT: 1: nan nan nan nan
// CHECK-NEXT: %none = kvc.pool: kv_heads 2, past 4
// CHECK-NEXT: 0: 1 5 2 0
// CHECK-NEXT: 1: nan -1 -1 4

// Rows one by one: 1 5 2 0 and its negative.
// RUN: kvc-opt %t/rows.mlir --interpret --trace --input %t/rows.json | FileCheck %s --match-full-lines --check-prefix=ROWS
// ROWS:      %p = kvc.pool: query_heads 1, query 2, past 4
// ROWS-NEXT: 0 0: 5 5 5 2
// ROWS-NEXT: 0 1: -1 -1 0 0

//--- scores.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @pool {
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %nine = arith.constant 9 : index
  %k = kvc.vectors key : !r
  %x = kvc.reduce sum channels %k : !r -> !s
  %max = kvc.pool max %x width(%three) : !s
  %mean = kvc.pool mean %x width(%three) : !s
  %padded = kvc.pool mean %x width(%three) count_padding : !s
  %wide = kvc.pool max %x width(%nine) : !s
  %none = kvc.pool mean %x width(%one) : !s
  %1 = arith.addf %max, %mean : !s
  %2 = arith.addf %1, %padded : !s
  %3 = arith.addf %2, %wide : !s
  %s = arith.addf %3, %none : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%one) : tensor<?x?xi1>
}
//--- rows.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @pool {
  %two = arith.constant 2 : index
  %three = arith.constant 3 : index
  %q = kvc.attention last(%two) logits : !r
  %p = kvc.pool max %q width(%three) : !r
  %h = kvc.reduce sum queries %p : !r -> !s
  %s = kvc.reduce sum group %h : !s -> !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- in.json
{"k": [[[1], [5], [2], [0], [7]], [["nan"], [-1], [-1], [4], [-7]]], "budget": 2}
//--- rows.json
{"k": [[[1], [5], [2], [0]]], "q": [[[1], [-1]]], "budget": 1, "scale": 1}
