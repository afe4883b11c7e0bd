// kvc.keep: the marked tokens of the past and the last ones, ascending.
// RUN: split-file %s %t
// RUN: kvc-opt %t/keep.mlir --interpret --input %t/five.json | FileCheck %s --match-full-lines --check-prefix=NONE
// The mask is one row for all heads: even tokens. Nothing is protected.
// NONE:      kept 0: 0 2 4
// NONE-NEXT: kept 1: 0 2 4
// RUN: kvc-opt %t/keep.mlir --interpret --input %t/five.json --param w=2 | FileCheck %s --match-full-lines --check-prefix=TWO
// The past is 0 1 2; 3 and 4 stay.
// TWO:      kept 0: 0 2 3 4
// TWO-NEXT: kept 1: 0 2 3 4
// A window longer than the budget, and longer than the sequence: the last B tokens, whatever
// is marked.
// RUN: kvc-opt %t/keep.mlir --interpret --input %t/five.json --param w=4 | FileCheck %s --match-full-lines --check-prefix=LONG
// RUN: kvc-opt %t/keep.mlir --interpret --input %t/five.json --param w=9 | FileCheck %s --match-full-lines --check-prefix=LONG
// LONG:      kept 0: 2 3 4
// LONG-NEXT: kept 1: 2 3 4

//--- keep.mlir
kvc.policy @keep {
  %w = kvc.param "w" = 0 : index
  %two = arith.constant 2 : index
  %b = kvc.broadcast %two : index to tensor<?x?xi32>
  %p = kvc.position : tensor<?x?xi32>
  %r = arith.remui %p, %b : tensor<?x?xi32>
  %one = arith.constant 1 : index
  %o = kvc.broadcast %one : index to tensor<?x?xi32>
  %even = arith.cmpi ult, %r, %o : tensor<?x?xi32>
  kvc.keep %even protect_last(%w) : tensor<?x?xi1>
}
//--- five.json
{"k": [[[0], [0], [0], [0], [0]], [[0], [0], [0], [0], [0]]], "budget": 3}
