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

// A cache of rows. Head 0 has two: the best four are 9 8 7 6, so f = 2, 2, and with all
// of the safeguard bases of 2 and 2 fit as well.
// RUN: kvc-opt %t/heads.mlir --interpret --trace --input %t/two-rows.json | FileCheck %s --match-full-lines --check-prefix=TWO
// TWO:      %n = kvc.allocate_heads: kv_heads 2
// TWO-NEXT: 2 2
// TWO:      scores 0: 9 nan nan 8
// TWO-NEXT: scores 1: 7 6 5 4
// TWO-NEXT: kept 0: 0 3
// TWO-NEXT: kept 1: 0 1
// Three heads, B = 3, two rows in head 0: bases 3 3 3, the total is 9 of 10 rows. The
// best nine are all but head 2's last, f = 2 4 3. Half: 5/2 7/2 3, and head 0 has room
// for 2: seven are left for 7/2 and 3, 49/13 and 42/13, floors 3 and 3; 10/13 is more
// than 3/13.
// RUN: kvc-opt %t/heads.mlir --interpret --trace --input %t/full.json | FileCheck %s --match-full-lines --check-prefix=FULL
// FULL:      %n = kvc.allocate_heads: kv_heads 3
// FULL-NEXT: 2 4 3
// With a window of 2 and B = 2 head 0's window takes all: it takes no part, and its last
// two rows stay. Head 1 has one row there, so its base is 1.
// RUN: kvc-opt %t/heads.mlir --interpret --trace --param w=2 --input %t/window.json | FileCheck %s --match-full-lines --check-prefix=PART
// PART:      %n = kvc.allocate_heads: kv_heads 2
// PART-NEXT: 0 1
// PART:      kept 0: 2 3
// PART-NEXT: kept 1: 0 3
// Ties go to the smaller token, not to the smaller row, then to the smaller head: tokens 0
// and 1 of head 1, then token 2 of head 0, its first row, and of head 1.
// RUN: kvc-opt %t/heads.mlir --interpret --trace --param s=0 --input %t/row-ties.json | FileCheck %s --match-full-lines --check-prefix=TIES
// TIES:      %n = kvc.allocate_heads: kv_heads 2
// TIES-NEXT: 1 3
// Layers share, too: the window of 3 takes B = 2 whole, so a layer's share is nothing. Head 0
// has three rows in it, head 1 one row: together no more than twice two, so all stay.
// RUN: kvc-opt %t/layers.mlir --interpret --trace --input %t/few.json | FileCheck %s --match-full-lines --check-prefix=FEW
// FEW:      kept 0: 2 3 4
// FEW-NEXT: kept 1: 0
// Of one row more head 0's window is cut, and takes no part.
// RUN: kvc-opt %t/layers.mlir --interpret --trace --input %t/more.json | FileCheck %s --match-full-lines --check-prefix=MORE
// MORE:      kept 0: 3 4
// MORE-NEXT: kept 1: 0 1

// RUN: not kvc-opt %t/heads.mlir --interpret --input %t/half-a-row.json 2>&1 | FileCheck %s --check-prefix=HALF
// HALF: half-a-row.json: rows must hold 0 and 1, got 0.50

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
//--- layers.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @layers {
  %w = kvc.param "w" = 3 : index
  %safe = kvc.param "s" = "0.5" : !kvc.fraction
  %ratio = kvc.fraction "2"
  %k = kvc.vectors key : !r
  %x = kvc.reduce sum channels %k : !r -> !s
  %b = kvc.allocate_layers ratio(%ratio) : tensor<?xi32>
  %n = kvc.allocate_heads %x base(%b) safeguard(%safe) : !s, tensor<?xi32>
  %m = kvc.topk %x, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%w) : tensor<?x?xi1>
}
//--- few.json
{"k": [[[0], [0], [1], [1], [1]], [[1], [0], [0], [0], [0]]], "budget": 2,
 "rows": [[0, 0, 1, 1, 1], [1, 0, 0, 0, 0]]}
//--- more.json
{"k": [[[0], [0], [1], [1], [1]], [[1], [1], [0], [0], [0]]], "budget": 2,
 "rows": [[0, 0, 1, 1, 1], [1, 1, 0, 0, 0]]}
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
//--- two-rows.json
{"k": [[[9], [0], [0], [8]], [[7], [6], [5], [4]]], "budget": 2, "rows": [[1, 0, 0, 1], [1, 1, 1, 1]]}
//--- full.json
{"k": [[[9], [9], [0], [0]], [[8], [8], [8], [8]], [[7], [7], [7], [1]]], "budget": 3,
 "rows": [[1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]}
//--- window.json
{"k": [[[9], [9], [9], [9]], [[1], [0], [0], [1]]], "budget": 2, "rows": [[1, 1, 1, 1], [1, 1, 0, 1]]}
//--- row-ties.json
{"k": [[[0], [7], [7], [7]], [[7], [7], [7], [7]]], "budget": 2, "rows": [[0, 0, 1, 1], [1, 1, 1, 1]]}
//--- half-a-row.json
{"k": [[[1], [2]], [[3], [4]]], "budget": 1, "rows": [[1, 0.5], [1, 1]]}
