// kvc.select_heads: heads worth 2 1 1 NaN (of one token each and a window).
// RUN: split-file %s %t
// RUN: kvc-opt %t/heads.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines

// Ties to the smaller head; a NaN is at no end.
// CHECK:      %low1 = kvc.select_heads: kv_heads 4
// CHECK-NEXT: 0 1 0 0
// CHECK-NEXT: %low2 = kvc.select_heads: kv_heads 4
// CHECK-NEXT: 0 1 1 0
// CHECK-NEXT: %high1 = kvc.select_heads: kv_heads 4
// CHECK-NEXT: 1 0 0 0
// CHECK-NEXT: %high3 = kvc.select_heads: kv_heads 4
// CHECK-NEXT: 1 1 1 0
// CHECK-NEXT: %none = kvc.select_heads: kv_heads 4
// CHECK-NEXT: 0 0 0 0
// As many as there are, or more: all, the NaN too.
// CHECK-NEXT: %all = kvc.select_heads: kv_heads 4
// CHECK-NEXT: 1 1 1 1
// CHECK-NEXT: %more = kvc.select_heads: kv_heads 4
// CHECK-NEXT: 1 1 1 1
// For each token of the past.
// CHECK-NEXT: %tokens = kvc.select_heads: kv_heads 4, past 1
// CHECK-NEXT: 0: 0
// CHECK-NEXT: 1: 1
// CHECK-NEXT: 2: 0
// CHECK-NEXT: 3: 0

//--- heads.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!h = tensor<?xi1>
kvc.policy @select {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %9 = arith.constant 9 : index
  %k = kvc.vectors key : !r
  %x = kvc.reduce sum channels %k : !r -> !s
  %v = kvc.reduce sum tokens %x : !s -> tensor<?xf32>
  %low1 = kvc.select_heads lowest %v count(%1) : tensor<?xf32> -> !h
  %low2 = kvc.select_heads lowest %v count(%2) : tensor<?xf32> -> !h
  %high1 = kvc.select_heads highest %v count(%1) : tensor<?xf32> -> !h
  %high3 = kvc.select_heads highest %v count(%3) : tensor<?xf32> -> !h
  %none = kvc.select_heads lowest %v count(%0) : tensor<?xf32> -> !h
  %all = kvc.select_heads lowest %v count(%4) : tensor<?xf32> -> !h
  %more = kvc.select_heads highest %v count(%9) : tensor<?xf32> -> !h
  %tokens = kvc.select_heads lowest %v count(%1) : tensor<?xf32> -> tensor<?x?xi1>
  %o1 = arith.ori %low1, %low2 : !h
  %o2 = arith.ori %high1, %high3 : !h
  %o3 = arith.ori %none, %all : !h
  %o4 = arith.ori %o1, %o2 : !h
  %o5 = arith.ori %o3, %more : !h
  %o6 = arith.ori %o4, %o5 : !h
  %n = arith.extui %o6 : !h to tensor<?xi32>
  %top = kvc.topk %x, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  %m = arith.ori %top, %tokens : tensor<?x?xi1>
  kvc.keep %m protect_last(%1) : tensor<?x?xi1>
}
//--- in.json
{"k": [[[2], [0]], [[1], [0]], [[1], [0]], [["nan"], [0]]], "budget": 1}
