// kvc.fill: one row for all heads; a row of a window stands for all of its rows.
// RUN: split-file %s %t
// RUN: kvc-opt %t/ranks.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines
// CHECK:      %head = kvc.fill: one_head 1
// CHECK-NEXT: 2
// CHECK-NEXT: %token = kvc.fill: one_head 1, past 3
// CHECK-NEXT: 0: inf inf inf
// CHECK-NEXT: %row = kvc.fill: one_head 1, query 1, past 3
// CHECK-NEXT: 0 0: 0.5 0.5 0.5
// Logits 1 2 3 and 2 4 6, and 0.5 more.
// CHECK:      %more = arith.addf: query_heads 1, query 2, past 3
// CHECK-NEXT: 0 0: 1.5 2.5 3.5
// CHECK-NEXT: 0 1: 2.5 4.5 6.5

//--- ranks.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @fill {
  %two = arith.constant 2 : index
  %head = kvc.fill 2.0 : tensor<?xf32>
  %token = kvc.fill 0x7F800000 : !s
  %row = kvc.fill 0.5 : !r
  %q = kvc.attention last(%two) logits : !r
  %more = arith.addf %q, %row : !r
  %h = kvc.reduce sum queries %more : !r -> !s
  %g = kvc.reduce sum group %h : !s -> !s
  %per = kvc.broadcast %head : tensor<?xf32> to !s
  %1 = arith.mulf %g, %per : !s
  %s = arith.minimumf %1, %token : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- in.json
{"k": [[[1], [2], [3]]], "q": [[[1], [2]]], "budget": 1, "scale": 1}
