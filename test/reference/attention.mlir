// kvc.attention. Keys 0, ln 2, ln 4, 0 and queries of 1 with scale 1: every token weighs
// 1, 2, 4, 1 before its row is divided by the sum over what the query sees.
// RUN: split-file %s %t
// RUN: kvc-opt %t/rows.mlir --interpret --trace --input %t/plain.json | FileCheck %s --match-full-lines

// Query head 0, of tokens 1, 2, 3: (1 2)/3, (1 2 4)/7, (1 2 4 1)/8; the last token is the
// window, so it is in the sums and not in the rows. Query head 1 is all 0: 1/2, 1/3, 1/4.
// CHECK:      %rows = kvc.attention: query_heads 2, query 3, past 3
// CHECK-NEXT: 0 0: 0.333333333 0.666666667 0
// CHECK-NEXT: 0 1: 0.142857143 0.285714286 0.571428571
// CHECK-NEXT: 0 2: 0.125 0.25 0.5
// CHECK-NEXT: 1 0: 0.5 0.5 0
// CHECK-NEXT: 1 1: 0.333333333 0.333333333 0.333333333
// CHECK-NEXT: 1 2: 0.25 0.25 0.25
// Logits are q . k, also of tokens behind the query: ln 2 = 0.693147181.
// CHECK:      %logits = kvc.attention: query_heads 2, query 3, past 3
// CHECK-NEXT: 0 0: 0 0.693147181 1.38629436
// CHECK-NEXT: 0 1: 0 0.693147181 1.38629436
// CHECK-NEXT: 0 2: 0 0.693147181 1.38629436
// CHECK-NEXT: 1 0: 0 0 0

// bf16 has 8 bits: 1/3 = 1.0101011|.. b-2 = 171/512, 1/7 = 146/1024; 1/8 is exact.
// RUN: kvc-opt %t/rounded.mlir --interpret --trace --input %t/bf16.json | FileCheck %s --match-full-lines --check-prefix=BF16
// BF16:      %rows = kvc.attention: query_heads 1, query 3, past 3
// BF16-NEXT: 0 0: 0.333984375 0.66796875 0
// BF16-NEXT: 0 1: 0.142578125 0.28515625 0.5703125
// BF16-NEXT: 0 2: 0.125 0.25 0.5
// f16 has 11: 1/3 = 1365/4096, 1/7 = 1170/8192. f32 rounds the ninth digit at most.
// RUN: kvc-opt %t/rounded.mlir --interpret --trace --input %t/f16.json | FileCheck %s --match-full-lines --check-prefix=F16
// F16:      0 0: 0.333251953 0.666503906 0
// F16-NEXT: 0 1: 0.142822266 0.285644531 0.571289062
// RUN: kvc-opt %t/rounded.mlir --interpret --trace --input %t/f32.json | FileCheck %s --match-full-lines --check-prefix=F32
// F32:      0 0: 0.333333343 0.666666687 0

// Two tokens, three queries: the first is in front of the sequence and has no weight, in
// logits 0. The second sees token 0 alone.
// RUN: kvc-opt %t/rows.mlir --interpret --trace --input %t/short.json | FileCheck %s --match-full-lines --check-prefix=SHORT
// SHORT:      %rows = kvc.attention: query_heads 1, query 3, past 1
// SHORT-NEXT: 0 0: 0
// SHORT-NEXT: 0 1: 1
// SHORT-NEXT: 0 2: 0.333333333
// SHORT-NEXT: %logits = kvc.attention: query_heads 1, query 3, past 1
// SHORT-NEXT: 0 0: 0
// SHORT-NEXT: 0 1: 0.5
// SHORT-NEXT: 0 2: 0.5
// The window takes the whole budget: nothing is ranked.
// SHORT-NOT:  scores
// SHORT:      kept 0: 1

// All queries: (1), (1 2)/3, (1 2 1)/4; column sums 1 + 1/3 + 1/4 and 2/3 + 1/2.
// RUN: kvc-opt %t/all.mlir --interpret --trace --input %t/three.json | FileCheck %s --match-full-lines --check-prefix=ALL
// ALL:      %rows = kvc.attention: query_heads 1, query 3, past 2
// ALL-NEXT: 0 0: 1 0
// ALL-NEXT: 0 1: 0.333333333 0.666666667
// ALL-NEXT: 0 2: 0.25 0.5
// ALL:      scores 0: 1.58333333 1.16666667

// A NaN in token 1 is in every weight of the queries that see it; what they do not see
// stays 0. An infinite logit: inf - inf is NaN, and 0 for the others' exp(-inf) / NaN is NaN.
// RUN: kvc-opt %t/rows.mlir --interpret --trace --input %t/nan.json | FileCheck %s --match-full-lines --check-prefix=NAN
// NAN:      0 0: nan nan 0
// NAN-NEXT: 0 1: nan nan nan
// RUN: kvc-opt %t/rows.mlir --interpret --trace --input %t/inf.json | FileCheck %s --match-full-lines --check-prefix=INF
// INF:      0 0: 0.5 0.5 0
// INF-NEXT: 0 1: nan nan nan

// The scale is 1 / sqrt(4) where none is given: 3 * 2 / 2.
// RUN: kvc-opt %t/one.mlir --interpret --trace --input %t/four.json | FileCheck %s --match-full-lines --check-prefix=SCALE
// SCALE:      %logits = kvc.attention: query_heads 1, query 1, past 2
// SCALE-NEXT: 0 0: 3 -3

//--- rows.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @attention {
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %rows = kvc.attention last(%three) : !r
  %logits = kvc.attention last(%three) logits : !r
  %both = arith.addf %rows, %logits : !r
  %h = kvc.reduce sum queries %both : !r -> !s
  %s = kvc.reduce sum group %h : !s -> !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%one) : tensor<?x?xi1>
}
//--- rounded.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @attention {
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %rows = kvc.attention last(%three) rounded : !r
  %h = kvc.reduce sum queries %rows : !r -> !s
  %s = kvc.reduce sum group %h : !s -> !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%one) : tensor<?x?xi1>
}
//--- all.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @attention {
  %one = arith.constant 1 : index
  %length = kvc.length
  %rows = kvc.attention last(%length) : !r
  %h = kvc.reduce sum queries %rows : !r -> !s
  %s = kvc.reduce sum group %h : !s -> !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m protect_last(%one) : tensor<?x?xi1>
}
//--- one.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @attention {
  %one = arith.constant 1 : index
  %logits = kvc.attention last(%one) logits : !r
  %h = kvc.reduce sum queries %logits : !r -> !s
  %s = kvc.reduce sum group %h : !s -> !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- plain.json
{"k": [[[0], [0.6931471805599453], [1.3862943611198906], [0]]],
 "q": [[[1], [1], [1]], [[0], [0], [0]]], "budget": 2, "scale": 1}
//--- bf16.json
{"k": [[[0], [0.6931471805599453], [1.3862943611198906], [0]]],
 "q": [[[1], [1], [1]]], "budget": 2, "scale": 1, "dtype": "bf16"}
//--- f16.json
{"k": [[[0], [0.6931471805599453], [1.3862943611198906], [0]]],
 "q": [[[1], [1], [1]]], "budget": 2, "scale": 1, "dtype": "f16"}
//--- f32.json
{"k": [[[0], [0.6931471805599453], [1.3862943611198906], [0]]],
 "q": [[[1], [1], [1]]], "budget": 2, "scale": 1, "dtype": "f32"}
//--- short.json
{"k": [[[0.5], [1.1931471805599453]]], "q": [[[1], [1]]], "budget": 1, "scale": 1}
//--- three.json
{"k": [[[0], [0.6931471805599453], [0]]], "q": [[[1], [1], [1]]], "budget": 2, "scale": 1}
//--- nan.json
{"k": [[[0], ["nan"], [0], [0]]], "q": [[[1], [1], [1]]], "budget": 2, "scale": 1}
//--- inf.json
{"k": [[[0], [0], ["inf"], [0]]], "q": [[[1], [1], [1]]], "budget": 2, "scale": 1}
//--- four.json
{"k": [[[2, 9, 9, 9], [-2, 9, 9, 9]]], "q": [[[3, 0, 0, 0]]], "budget": 1}
