// kvc.segment, length 3 from token 1: 3 | 1 4 1 | 5 9 2 | 6.
// RUN: split-file %s %t
// RUN: kvc-opt %t/own.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines

// CHECK:      %max = kvc.segment: kv_heads 1, past 8
// CHECK-NEXT: 0: 3 4 4 4 9 9 9 6
// CHECK-NEXT: %min = kvc.segment: kv_heads 1, past 8
// CHECK-NEXT: 0: 3 1 1 1 2 2 2 6
// CHECK-NEXT: %sum = kvc.segment: kv_heads 1, past 8
// CHECK-NEXT: 0: 3 6 6 6 16 16 16 6
// CHECK-NEXT: %mean = kvc.segment: kv_heads 1, past 8
// CHECK-NEXT: 0: 3 2 2 2 5.33333333 5.33333333 5.33333333 6
// Ranges 0, 3, 7, 0; a range of 0 divides by 1. (5 - 2) / 7.
// CHECK-NEXT: %minmax = kvc.segment: kv_heads 1, past 8
// CHECK-NEXT: 0: 0 0 1 0 0.428571429 1 0 0
// Of the two ones the later is behind the earlier.
// CHECK-NEXT: %rank = kvc.segment: kv_heads 1, past 8
// CHECK-NEXT: 0: 0 1 2 0 1 2 0 0
// In front of token 99 there is one segment: 3+1+4+1+5+9+2+6.
// CHECK-NEXT: %front = kvc.segment: kv_heads 1, past 8
// CHECK-NEXT: 0: 31 31 31 31 31 31 31 31
// A first token of -1 counts as 0: 3 1 4 | 1 5 9 | 2 6.
// CHECK-NEXT: %zero = kvc.segment: kv_heads 1, past 8
// CHECK-NEXT: 0: 8 8 8 15 15 15 8 8

// The segment behind: of token 0 it is 1 4 1, of 1 4 1 it is 5 9 2, of these 6, of 6 none:
// max -inf, min inf, sum and rank 0, the others NaN.
// RUN: kvc-opt %t/next.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=NEXT
// NEXT:      %max = kvc.segment: kv_heads 1, past 8
// NEXT-NEXT: 0: 4 9 9 9 6 6 6 -inf
// NEXT-NEXT: %min = kvc.segment: kv_heads 1, past 8
// NEXT-NEXT: 0: 1 2 2 2 6 6 6 inf
// NEXT-NEXT: %sum = kvc.segment: kv_heads 1, past 8
// NEXT-NEXT: 0: 6 16 16 16 6 6 6 0
// NEXT-NEXT: %mean = kvc.segment: kv_heads 1, past 8
// NEXT-NEXT: 0: 2 5.33333333 5.33333333 5.33333333 6 6 6 nan
// (3 - 1) / 3; (1 - 2) / 7, (4 - 2) / 7; (5 - 6) / 1, 9 - 6, 2 - 6.
// NEXT-NEXT: %minmax = kvc.segment: kv_heads 1, past 8
// NEXT-NEXT: 0: 0.666666667 -0.142857143 0.285714286 -0.142857143 -1 3 -4 nan
// NEXT-NEXT: %rank = kvc.segment: kv_heads 1, past 8
// NEXT-NEXT: 0: 2 0 1 0 0 1 0 0

// Softmax of 0 | 0 ln2 0 | ln4 0 0 | NaN: 1, (1 2 1)/4, (4 1 1)/6.
// RUN: kvc-opt %t/softmax.mlir --interpret --trace --input %t/logs.json | FileCheck %s --match-full-lines --check-prefix=SOFTMAX
// SOFTMAX:      %x = kvc.segment: kv_heads 1, past 8
// SOFTMAX-NEXT: 0: 1 0.25 0.5 0.25 0.666666667 0.166666667 0.166666667 nan
// Behind NaN, 1, NaN, -inf come 1, 3, 0 and 2 of the others: a NaN is below -inf.
// RUN: kvc-opt %t/order.mlir --interpret --trace --input %t/nan.json | FileCheck %s --match-full-lines --check-prefix=ORDER
// ORDER:      %x = kvc.segment: kv_heads 1, past 4
// ORDER-NEXT: 0: 1 3 0 2

// Vectors: each channel for itself. (1, 8) (2, 7) | (3, 6): sums 3 15 and 3 6.
// RUN: kvc-opt %t/vectors.mlir --interpret --trace --input %t/channels.json | FileCheck %s --match-full-lines --check-prefix=VECTORS
// VECTORS:      %x = kvc.segment: kv_heads 1, channel 2, past 3
// VECTORS-NEXT: 0 0: 3 3 3
// VECTORS-NEXT: 0 1: 15 15 6

//--- own.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @segment {
  %below = arith.constant -1 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %far = arith.constant 99 : index
  %k = kvc.vectors key : !r
  %x = kvc.reduce sum channels %k : !r -> !s
  %max = kvc.segment max %x length(%three) from(%one) : !s
  %min = kvc.segment min %x length(%three) from(%one) : !s
  %sum = kvc.segment sum %x length(%three) from(%one) : !s
  %mean = kvc.segment mean %x length(%three) from(%one) : !s
  %minmax = kvc.segment minmax %x length(%three) from(%one) : !s
  %rank = kvc.segment rank %x length(%three) from(%one) : !s
  %front = kvc.segment sum %x length(%three) from(%far) : !s
  %zero = kvc.segment sum %x length(%three) from(%below) : !s
  %1 = arith.addf %max, %min : !s
  %2 = arith.addf %1, %sum : !s
  %3 = arith.addf %2, %mean : !s
  %4 = arith.addf %3, %minmax : !s
  %5 = arith.addf %4, %rank : !s
  %6 = arith.addf %5, %front : !s
  %s = arith.addf %6, %zero : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- next.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @segment {
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %k = kvc.vectors key : !r
  %x = kvc.reduce sum channels %k : !r -> !s
  %max = kvc.segment max next %x length(%three) from(%one) : !s
  %min = kvc.segment min next %x length(%three) from(%one) : !s
  %sum = kvc.segment sum next %x length(%three) from(%one) : !s
  %mean = kvc.segment mean next %x length(%three) from(%one) : !s
  %minmax = kvc.segment minmax next %x length(%three) from(%one) : !s
  %rank = kvc.segment rank next %x length(%three) from(%one) : !s
  %1 = arith.addf %max, %min : !s
  %2 = arith.addf %1, %sum : !s
  %3 = arith.addf %2, %mean : !s
  %4 = arith.addf %3, %minmax : !s
  %s = arith.addf %4, %rank : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- softmax.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @segment {
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %k = kvc.vectors key : !r
  %t = kvc.reduce sum channels %k : !r -> !s
  %x = kvc.segment softmax %t length(%three) from(%one) : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %x, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- order.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @segment {
  %none = arith.constant 0 : index
  %four = arith.constant 4 : index
  %k = kvc.vectors key : !r
  %t = kvc.reduce sum channels %k : !r -> !s
  %x = kvc.segment rank %t length(%four) from(%none) : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %x, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- vectors.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @segment {
  %none = arith.constant 0 : index
  %two = arith.constant 2 : index
  %k = kvc.vectors key : !r
  %x = kvc.segment sum %k length(%two) from(%none) : !r
  %t = kvc.reduce sum channels %x : !r -> !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %t, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- in.json
{"k": [[[3], [1], [4], [1], [5], [9], [2], [6]]], "budget": 1}
//--- logs.json
{"k": [[[0], [0], [0.6931471805599453], [0], [1.3862943611198906], [0], [0], ["nan"]]], "budget": 1}
//--- nan.json
{"k": [[["nan"], [1], ["nan"], ["-inf"]]], "budget": 1}
//--- channels.json
{"k": [[[1, 8], [2, 7], [3, 6]]], "budget": 1}
