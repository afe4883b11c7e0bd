// kvc.nearest. The first channel of a token's value says what it is: 1 a source, 2 a centre.
// Centres are (1, 0) of token 0 and (0, 1) of token 1.
// RUN: split-file %s %t

// (1, 1) is as near to both: the smaller token. (-1, 0) has cosine -1 with the one and 0 with
// the other. A vector of 0 has cosine 0 with both. A NaN is near to nothing.
// RUN: kvc-opt %t/one.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines
// CHECK:      %to = kvc.nearest: kv_heads 1, past 6
// CHECK-NEXT: 0: -1 -1 0 1 0 -1
// CHECK:      destination 0: -1 -1 0 1 0 -1
// At least 0.5: the cosine of (1, 1) is 0.707.
// RUN: kvc-opt %t/one.mlir --interpret --trace --param least=0.5 --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=HALF
// HALF:      destination 0: -1 -1 0 -1 -1 -1
// RUN: kvc-opt %t/one.mlir --interpret --trace --param least=0.75 --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=NONE
// NONE:      destination 0: -1 -1 -1 -1 -1 -1
// A NaN is not near to a vector of 0 either.
// RUN: kvc-opt %t/one.mlir --interpret --trace --input %t/zeros.json | FileCheck %s --match-full-lines --check-prefix=ZEROS
// ZEROS:      destination 0: -1 -1 -1
// No centre, no destination.
// RUN: kvc-opt %t/one.mlir --interpret --trace --input %t/alone.json | FileCheck %s --match-full-lines --check-prefix=ALONE
// ALONE:      destination 0: -1 -1 -1

// Keys before RoPE as well: (1, 1) is (0, 1) there, so 0.707 * 1 with token 1 and 0 with 0.
// (-1, 0) is that on both sides: twice negative is -1, not 1, so token 1. Token 4 is 0 as a
// key: 0 with both.
// RUN: kvc-opt %t/product.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=TIMES
// TIMES:      destination 0: -1 -1 1 1 0 -1

//--- one.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!m = tensor<?x?xi1>
kvc.policy @nearest {
  %least = kvc.param "least" = 0.0 : f32
  %v = kvc.vectors value : !r
  %role = kvc.reduce sum channels %v : !r -> !s
  %1 = kvc.fill 1.0 : !s
  %2 = kvc.fill 2.0 : !s
  %sources = arith.cmpf oeq, %role, %1 : !s
  %centres = arith.cmpf oeq, %role, %2 : !s
  %to = kvc.nearest %sources in %centres of key at_least(%least) : !m, !m -> tensor<?x?xi32>
  kvc.keep %centres merge(%to, %role : tensor<?x?xi32>, !s) : !m
}
//--- product.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!m = tensor<?x?xi1>
kvc.policy @nearest {
  %least = kvc.param "least" = 0.0 : f32
  %v = kvc.vectors value : !r
  %role = kvc.reduce sum channels %v : !r -> !s
  %1 = kvc.fill 1.0 : !s
  %2 = kvc.fill 2.0 : !s
  %sources = arith.cmpf oeq, %role, %1 : !s
  %centres = arith.cmpf oeq, %role, %2 : !s
  %to = kvc.nearest %sources in %centres of raw_key times key at_least(%least) : !m, !m -> tensor<?x?xi32>
  kvc.keep %centres merge(%to, %role : tensor<?x?xi32>, !s) : !m
}
//--- in.json
{"k": [[[1, 0], [0, 1], [1, 1], [-1, 0], [0, 0], ["nan", 0]]],
 "raw_k": [[[1, 0], [0, 1], [0, 1], [-1, 0], [1, 1], [1, 1]]],
 "v": [[[2, 0], [2, 0], [1, 0], [1, 0], [1, 0], [1, 0]]], "budget": 2}
//--- zeros.json
{"k": [[[0, 0], [0, 0], ["nan", 0]]],
 "v": [[[2, 0], [2, 0], [1, 0]]], "budget": 2}
//--- alone.json
{"k": [[[1, 0], [0, 1], [1, 1]]], "v": [[[1, 0], [0, 0], [1, 0]]], "budget": 2}
