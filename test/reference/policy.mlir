// kvc.policy: what holds for every policy, whatever it says.
// RUN: split-file %s %t

// T <= B: all tokens, and nothing is run.
// RUN: kvc-opt %t/top.mlir --interpret --trace --input %t/fits.json | FileCheck %s --match-full-lines --check-prefix=FITS
// FITS-NOT:  %{{.*}}
// FITS:      kept 0: 0 1 2
// FITS-NEXT: kept 1: 0 1 2
// FITS-NOT:  {{.+}}
// One token more than fits: the past is 0 1, of which one stays.
// RUN: kvc-opt %t/top.mlir --interpret --input %t/more.json | FileCheck %s --match-full-lines --check-prefix=MORE
// MORE:      scores 0: 5 6
// MORE-NEXT: scores 1: 8 7
// MORE-NEXT: kept 0: 1 2
// MORE-NEXT: kept 1: 0 2
// B <= w: the last B tokens, and nothing is ranked.
// RUN: kvc-opt %t/top.mlir --interpret --input %t/more.json --param w=2 | FileCheck %s --match-full-lines --check-prefix=WINDOW
// WINDOW-NOT:  scores{{.*}}
// WINDOW:      kept 0: 1 2
// WINDOW-NEXT: kept 1: 1 2

//--- top.mlir
kvc.policy @top {
  %w = kvc.param "w" = 1 : index
  %s = kvc.norm l1 key : tensor<?x?xf32>
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%w) : tensor<?x?xi1>
}
//--- fits.json
{"k": [[[5], [6], [7]], [[8], [7], [6]]], "budget": 3}
//--- more.json
{"k": [[[5], [6], [7]], [[8], [7], [6]]], "budget": 2}
