// kvc.allocate_heads, 2 tokens for each of two heads.
// RUN: split-file %s %t

// 9 8 7 1 and 6 2 2 NaN: the best four are 9 8 7 6, so f = 3, 1. Half of it and half of 2:
// 5/2 and 3/2, floors 2 and 1, and of equal remainders the smaller head's.
// RUN: kvc-opt %t/heads.mlir --interpret --trace --input %t/best.json | FileCheck %s --match-full-lines
// CHECK:      %n = kvc.allocate_heads: kv_heads 2
// CHECK-NEXT: 3 1
// CHECK:      kept 0: 0 1 2
// CHECK-NEXT: kept 1: 0
// All of the safeguard: 2 and 2. None: f. A fifth: 4/5 * 3 + 2/5 = 14/5, 6/5: the larger
// remainder is head 0's.
// RUN: kvc-opt %t/heads.mlir --interpret --trace --param s=1 --input %t/best.json | FileCheck %s --match-full-lines --check-prefix=EVEN
// EVEN:      %n = kvc.allocate_heads: kv_heads 2
// EVEN-NEXT: 2 2
// RUN: kvc-opt %t/heads.mlir --interpret --trace --param s=0 --input %t/best.json | FileCheck %s --match-full-lines
// RUN: kvc-opt %t/heads.mlir --interpret --trace --param s=0.2 --input %t/best.json | FileCheck %s --match-full-lines

// All equal: tokens 0 and 1 of both heads. NaN is below -inf: four of head 0.
// RUN: kvc-opt %t/heads.mlir --interpret --trace --param s=0 --input %t/equal.json | FileCheck %s --match-full-lines --check-prefix=EVEN
// RUN: kvc-opt %t/heads.mlir --interpret --trace --param s=0 --input %t/nan.json | FileCheck %s --match-full-lines --check-prefix=ALL
// ALL:      %n = kvc.allocate_heads: kv_heads 2
// ALL-NEXT: 4 0
// ALL:      kept 0: 0 1 2 3
// ALL-NEXT: kept 1:
// The tie of 7 is token 1's of head 1 and token 2's of head 0: the smaller token first.
// RUN: kvc-opt %t/heads.mlir --interpret --trace --param s=0 --input %t/tie.json | FileCheck %s --match-full-lines --check-prefix=TIE
// TIE:      %n = kvc.allocate_heads: kv_heads 2
// TIE-NEXT: 2 2

// Nothing to share: budget and window are 1.
// RUN: kvc-opt %t/heads.mlir --interpret --trace --param w=1 --input %t/none.json | FileCheck %s --match-full-lines --check-prefix=NONE
// NONE:      %n = kvc.allocate_heads: kv_heads 2
// NONE-NEXT: 0 0

//--- heads.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @heads {
  %w = kvc.param "w" = 0 : index
  %safe = kvc.param "s" = "0.5" : !kvc.fraction
  %k = kvc.vectors key : !r
  %x = kvc.reduce sum channels %k : !r -> !s
  %b = kvc.allocate uniform : tensor<?xi32>
  %n = kvc.allocate_heads %x base(%b) safeguard(%safe) : !s, tensor<?xi32>
  %m = kvc.topk %x, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%w) : tensor<?x?xi1>
}
//--- best.json
{"k": [[[9], [8], [7], [1]], [[6], [2], [2], ["nan"]]], "budget": 2}
//--- equal.json
{"k": [[[0], [-0.0], [0], [0]], [[0], [0], [0], [0]]], "budget": 2}
//--- nan.json
{"k": [[["-inf"], [0], ["-inf"], [0]], [["nan"], ["nan"], ["nan"], ["nan"]]], "budget": 2}
//--- tie.json
{"k": [[[9], [8], [7], [1]], [[9], [7], [1], [1]]], "budget": 2}
//--- none.json
{"k": [[[1], [2]], [[3], [4]]], "budget": 1}
