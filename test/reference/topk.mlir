// kvc.topk: 1 3 3 2 NaN, -inf NaN NaN -inf NaN, and 0 -0 0 -1 -0.
// RUN: split-file %s %t

// One: of equal scores the smaller token; -inf is above NaN; -0 equals 0.
// RUN: kvc-opt %t/top.mlir --interpret --trace --param n=1 --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=ONE
// ONE:      %m = kvc.topk: kv_heads 3, past 5
// ONE-NEXT: 0: 0 1 0 0 0
// ONE-NEXT: 1: 1 0 0 0 0
// ONE-NEXT: 2: 1 0 0 0 0
// RUN: kvc-opt %t/top.mlir --interpret --trace --param n=2 --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=TWO
// TWO:      %m = kvc.topk: kv_heads 3, past 5
// TWO-NEXT: 0: 0 1 1 0 0
// TWO-NEXT: 1: 1 0 0 1 0
// TWO-NEXT: 2: 1 1 0 0 0
// RUN: kvc-opt %t/top.mlir --interpret --trace --param n=4 --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=FOUR
// FOUR:      %m = kvc.topk: kv_heads 3, past 5
// FOUR-NEXT: 0: 1 1 1 1 0
// FOUR-NEXT: 1: 1 1 1 1 0
// FOUR-NEXT: 2: 1 1 1 0 1
// FOUR-NEXT: scores 0: 1 3 3 2 nan
// FOUR-NEXT: scores 1: -inf nan nan -inf nan
// FOUR-NEXT: scores 2: 0 0 0 -1 0
// FOUR-NEXT: kept 0: 0 1 2 3
// FOUR-NEXT: kept 1: 0 1 2 3
// FOUR-NEXT: kept 2: 0 1 2 4
// None and more than there are.
// RUN: kvc-opt %t/top.mlir --interpret --trace --param n=0 --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=NONE
// NONE:      %m = kvc.topk: kv_heads 3, past 5
// NONE-NEXT: 0: 0 0 0 0 0
// RUN: kvc-opt %t/top.mlir --interpret --trace --param n=9 --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=ALL
// ALL:      %m = kvc.topk: kv_heads 3, past 5
// ALL-NEXT: 0: 1 1 1 1 1

// A score for all heads, a count below 0 for the first: it counts as 0.
// RUN: kvc-opt %t/shared.mlir --interpret --trace --input %t/two.json | FileCheck %s --match-full-lines --check-prefix=SHARED
// SHARED:      %n = arith.subi: kv_heads 2
// SHARED-NEXT: -1 1
// SHARED:      %m = kvc.topk: kv_heads 2, past 3
// SHARED-NEXT: 0: 0 0 0
// SHARED-NEXT: 1: 0 0 1
// SHARED-NEXT: scores 0: 0 1 2
// SHARED-NEXT: scores 1: 0 1 2

//--- top.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @top {
  %c = kvc.param "n" = 1 : index
  %k = kvc.vectors key : !r
  %x = kvc.reduce sum channels %k : !r -> !s
  %n = kvc.broadcast %c : index to tensor<?xi32>
  %m = kvc.topk %x, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- shared.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @top {
  %two = arith.constant 2 : index
  %p = kvc.position : tensor<?x?xi32>
  %x = arith.sitofp %p : tensor<?x?xi32> to !s
  %k = kvc.vectors key : !r
  %t = kvc.reduce sum channels %k : !r -> !s
  %h = kvc.reduce max tokens %t : !s -> tensor<?xf32>
  %i = arith.fptosi %h : tensor<?xf32> to tensor<?xi32>
  %c = kvc.broadcast %two : index to tensor<?xi32>
  %n = arith.subi %i, %c : tensor<?xi32>
  %m = kvc.topk %x, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- in.json
{"k": [[[1], [3], [3], [2], ["nan"]], [["-inf"], ["nan"], ["nan"], ["-inf"], ["nan"]],
       [[0], [-0.0], [0], [-1], [-0.0]]], "budget": 3}
//--- two.json
{"k": [[[1], [0], [0]], [[3], [0], [0]]], "budget": 2}
