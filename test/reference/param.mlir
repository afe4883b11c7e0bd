// kvc.param: its default, or what is given; a whole number, a float and a fraction.
// RUN: split-file %s %t
// RUN: kvc-opt %t/params.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=DEFAULT
// DEFAULT:      %n = kvc.param: 4
// DEFAULT-NEXT: %x = kvc.param: 0.5
// DEFAULT-NEXT: %f = kvc.param: 0.25
// 4 * 1/4.
// DEFAULT-NEXT: %part = kvc.scale_count: 1
// RUN: kvc-opt %t/params.mlir --interpret --trace --input %t/in.json --param n=6 --param f=0.3333 --param x=-2 | FileCheck %s --match-full-lines --check-prefix=GIVEN
// GIVEN:      %n = kvc.param: 6
// GIVEN-NEXT: %x = kvc.param: -2
// GIVEN-NEXT: %f = kvc.param: 0.3333
// 6 * 0.3333 is a little less than 2.
// GIVEN-NEXT: %part = kvc.scale_count: 1

//--- params.mlir
kvc.policy @params {
  %n = kvc.param "n" = 4 : index
  %x = kvc.param "x" = 0.5 : f32
  %f = kvc.param "f" = "0.25" : !kvc.fraction
  %part = kvc.scale_count %n by(%f) : index
  %c = kvc.broadcast %part : index to tensor<?xi32>
  %s = kvc.norm l1 key : tensor<?x?xf32>
  %more = kvc.broadcast %x : f32 to tensor<?x?xf32>
  %t = arith.addf %s, %more : tensor<?x?xf32>
  %m = kvc.topk %t, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- in.json
{"k": [[[5], [6], [7]]], "budget": 1}
