// kvc.count_mass: how many of the best are left when the worst that add up to at most
// `rest` are gone.
// RUN: split-file %s %t

// 8 4 2 1: 1 + 2 is 3, so two are left; of 2.5 only the 1 goes. NaN 1 0 0: NaN adds nothing,
// so the three of 0 go, and the 1 too where 3 may. -5 4 2 9: -5 + 2 + 4 = 1, + 9 is 10.
// RUN: kvc-opt %t/mass.mlir --interpret --trace --param rest=3 --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=THREE
// THREE:      %n = kvc.count_mass: kv_heads 3
// THREE-NEXT: 2 0 1
// RUN: kvc-opt %t/mass.mlir --interpret --trace --param rest=2.5 --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=LESS
// LESS:      %n = kvc.count_mass: kv_heads 3
// LESS-NEXT: 3 0 1
// Nothing may be left behind; all may.
// RUN: kvc-opt %t/mass.mlir --interpret --trace --param rest=0 --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=ZERO
// ZERO:      %n = kvc.count_mass: kv_heads 3
// ZERO-NEXT: 4 1 2
// RUN: kvc-opt %t/mass.mlir --interpret --trace --param rest=15 --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=ALL
// ALL:      %n = kvc.count_mass: kv_heads 3
// ALL-NEXT: 0 0 0
// Below 0: no sum of heads 0 and 1 is; -5 + 2 is -3, with 4 it is not.
// RUN: kvc-opt %t/negative.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=BELOW
// BELOW:      %n = kvc.count_mass: kv_heads 3
// BELOW-NEXT: 4 4 2

//--- mass.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @mass {
  %rest = kvc.param "rest" = 0.0 : f32
  %k = kvc.vectors key : !r
  %x = kvc.reduce sum channels %k : !r -> !s
  %n = kvc.count_mass %x all_but(%rest) : !s -> tensor<?xi32>
  %m = kvc.topk %x, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- negative.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @mass {
  %rest = arith.constant -1.0 : f32
  %k = kvc.vectors key : !r
  %x = kvc.reduce sum channels %k : !r -> !s
  %n = kvc.count_mass %x all_but(%rest) : !s -> tensor<?xi32>
  %m = kvc.topk %x, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- in.json
{"k": [[[8], [1], [4], [2]], [["nan"], [1], [0], [0]], [[4], [9], [-5], [2]]], "budget": 1}
