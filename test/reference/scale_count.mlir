// kvc.scale_count: exact, rounded down. 7 * 0.5 = 3.5; 7 / 1.2 = 5.83; 10 * 0.3 is 3 and
// 3 / 0.3 is 10, which binary floats miss; by 0 is 0; a count below 0 is 0.
// RUN: split-file %s %t
// RUN: kvc-opt %t/scale.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines
// CHECK:      %half = kvc.scale_count: 3
// CHECK-NEXT: %over = kvc.scale_count: 5
// CHECK-NEXT: %by = kvc.scale_count: 3
// CHECK-NEXT: %back = kvc.scale_count: 10
// CHECK-NEXT: %zero = kvc.scale_count: 0
// CHECK-NEXT: %negative = kvc.scale_count: 0
// A count of each head: 5 * 1.5.
// CHECK:      %counts = kvc.scale_count: kv_heads 2
// CHECK-NEXT: 7 7

//--- scale.mlir
kvc.policy @scale {
  %seven = arith.constant 7 : index
  %ten = arith.constant 10 : index
  %three = arith.constant 3 : index
  %below = arith.constant -4 : index
  %f05 = kvc.fraction "0.5"
  %f12 = kvc.fraction "1.2"
  %f03 = kvc.fraction "0.3"
  %f15 = kvc.fraction "1.5"
  %f0 = kvc.fraction "0"
  %half = kvc.scale_count %seven by(%f05) : index
  %over = kvc.scale_count %seven over(%f12) : index
  %by = kvc.scale_count %ten by(%f03) : index
  %back = kvc.scale_count %three over(%f03) : index
  %zero = kvc.scale_count %seven by(%f0) : index
  %negative = kvc.scale_count %below by(%f15) : index
  %1 = arith.addi %half, %over : index
  %2 = arith.addi %1, %by : index
  %3 = arith.addi %2, %back : index
  %4 = arith.addi %3, %zero : index
  %5 = arith.addi %4, %negative : index
  %6 = kvc.broadcast %5 : index to tensor<?xi32>
  %b = kvc.allocate uniform : tensor<?xi32>
  %counts = kvc.scale_count %b by(%f15) : tensor<?xi32>
  %n = arith.minui %counts, %6 : tensor<?xi32>
  %s = kvc.norm l2 key : tensor<?x?xf32>
  %m = kvc.topk %s, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- in.json
{"k": [[[0], [0], [0], [0], [0], [0]], [[0], [0], [0], [0], [0], [0]]], "budget": 5}
