// kvc.projected_norm. Query head 0 sees the values through the identity, query head 1
// through x + y and x - y.
// RUN: split-file %s %t
// RUN: kvc-opt %t/norms.mlir --interpret --trace --input %t/rows.json | FileCheck %s --match-full-lines

// Value (1, 2): head 0 makes (1, 2), head 1 makes (3, -1). (0, 0): 0. (-1, 1): (-1, 1) and
// (0, -2). Sums 3 and 4; roots of 5 and 10, of 2 and 4.
// CHECK:      %l1 = kvc.projected_norm: query_heads 2, past 3
// CHECK-NEXT: 0: 3 0 2
// CHECK-NEXT: 1: 4 0 2
// CHECK-NEXT: %l2 = kvc.projected_norm: query_heads 2, past 3
// CHECK-NEXT: 0: 2.23606798 0 1.41421356
// CHECK-NEXT: 1: 3.16227766 0 2
// The reference's bound is the tightest: the norm.
// CHECK-NEXT: %bound = kvc.projected_norm: query_heads 2, past 3
// CHECK-NEXT: 0: 3 0 2
// CHECK-NEXT: 1: 4 0 2
// The best token by the smaller head is marked; others have 0 in every query head.
// CHECK:      %first = kvc.topk: kv_heads 1, past 3
// CHECK-NEXT: 0: 1 0 0
// CHECK:      %marked = kvc.projected_norm: query_heads 2, past 3
// CHECK-NEXT: 0: 3 0 0
// CHECK-NEXT: 1: 4 0 0

//--- norms.mlir
!s = tensor<?x?xf32>
kvc.policy @norm {
  %l1 = kvc.projected_norm l1 : !s
  %l2 = kvc.projected_norm l2 : !s
  %bound = kvc.projected_norm l1 bound : !s
  %1 = arith.addf %l1, %l2 : !s
  %2 = arith.addf %1, %bound : !s
  %3 = kvc.reduce max group %2 : !s -> !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %first = kvc.topk %3, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  %marked = kvc.projected_norm l1 where(%first : tensor<?x?xi1>) : !s
  %4 = kvc.reduce max group %marked : !s -> !s
  %m = kvc.topk %4, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- rows.json
{"k": [[[0, 0], [0, 0], [0, 0]]], "v": [[[1, 2], [0, 0], [-1, 1]]],
 "wo": [[[1, 0], [1, 1]], [[0, 1], [1, -1]]], "budget": 1}
