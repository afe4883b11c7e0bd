// Ops of arith and math where they are peculiar: at 0, at the ends, with NaN.
// RUN: split-file %s %t
// RUN: kvc-opt %t/floats.mlir --interpret --trace --input %t/floats.json | FileCheck %s --match-full-lines --check-prefix=FLOAT

// Of 0, -0, 1, -2.5, NaN and inf:
// FLOAT:      %exp = math.exp: kv_heads 1, past 6
// FLOAT-NEXT: 0: 1 1 2.71828183 0.0820849986 nan inf
// FLOAT-NEXT: %log = math.log: kv_heads 1, past 6
// FLOAT-NEXT: 0: -inf -inf 0 nan nan inf
// FLOAT-NEXT: %sqrt = math.sqrt: kv_heads 1, past 6
// FLOAT-NEXT: 0: 0 0 1 nan nan inf
// FLOAT-NEXT: %rsqrt = math.rsqrt: kv_heads 1, past 6
// FLOAT-NEXT: 0: inf -inf 1 nan nan 0
// 0 to the power of 0 is 1.
// FLOAT-NEXT: %pow = math.powf: kv_heads 1, past 6
// FLOAT-NEXT: 0: 1 1 1 nan nan inf
// FLOAT-NEXT: %div = arith.divf: kv_heads 1, past 6
// FLOAT-NEXT: 0: nan nan 1 1 nan nan
// maximumf gives NaN on, maxnumf leaves it out.
// FLOAT-NEXT: %maximum = arith.maximumf: kv_heads 1, past 6
// FLOAT-NEXT: 0: 1 1 1 1 nan inf
// FLOAT-NEXT: %maxnum = arith.maxnumf: kv_heads 1, past 6
// FLOAT-NEXT: 0: 1 1 1 1 1 inf
// Halves go to the even neighbour.
// FLOAT-NEXT: %round = math.roundeven: kv_heads 1, past 6
// FLOAT-NEXT: 0: 0 0 1 -2 nan inf
// FLOAT-NEXT: %floor = math.floor: kv_heads 1, past 6
// FLOAT-NEXT: 0: 0 0 1 -3 nan inf
// Toward 0; NaN is 0; the largest float below 2^31 is 2^31 - 128.
// FLOAT-NEXT: %whole = arith.fptosi: kv_heads 1, past 6
// FLOAT-NEXT: 0: 0 0 1 -2 0 2.14748352e+09
// FLOAT-NEXT: %ordered = arith.cmpf: kv_heads 1, past 6
// FLOAT-NEXT: 0: 1 1 0 1 0 0
// FLOAT-NEXT: %unordered = arith.cmpf: kv_heads 1, past 6
// FLOAT-NEXT: 0: 1 1 0 1 1 0

// Positions 0 1 2 as 32 bits: 2^31 - 1 and more wraps around; a division by 0 is one by 1;
// 0 - 1 is the largest number without a sign.
// RUN: kvc-opt %t/integers.mlir --interpret --trace --input %t/three.json | FileCheck %s --match-full-lines --check-prefix=WHOLE
// WHOLE:      %sum = arith.addi: one_head 1, past 3
// WHOLE-NEXT: 0: 2.14748365e+09 -2.14748365e+09 -2.14748365e+09
// WHOLE-NEXT: %div = arith.divui: one_head 1, past 3
// WHOLE-NEXT: 0: 2 2 1
// WHOLE-NEXT: %rem = arith.remui: one_head 1, past 3
// WHOLE-NEXT: 0: 0 0 0
// WHOLE-NEXT: %less = arith.subi: one_head 1, past 3
// WHOLE-NEXT: 0: -1 0 1
// WHOLE-NEXT: %signed = arith.maxsi: one_head 1, past 3
// WHOLE-NEXT: 0: 0 1 2
// WHOLE-NEXT: %unsigned = arith.maxui: one_head 1, past 3
// WHOLE-NEXT: 0: -1 1 2
// 3 and 2, 1, 0 in binary.
// WHOLE-NEXT: %xor = arith.xori: one_head 1, past 3
// WHOLE-NEXT: 0: 2 3 0

//--- floats.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @floats {
  %k = kvc.vectors key : !r
  %x = kvc.reduce max channels %k : !r -> !s
  %one = kvc.fill 1.0 : !s
  %exp = math.exp %x : !s
  %log = math.log %x : !s
  %sqrt = math.sqrt %x : !s
  %rsqrt = math.rsqrt %x : !s
  %pow = math.powf %x, %x : !s
  %div = arith.divf %x, %x : !s
  %maximum = arith.maximumf %x, %one : !s
  %maxnum = arith.maxnumf %x, %one : !s
  %round = math.roundeven %x : !s
  %floor = math.floor %x : !s
  %whole = arith.fptosi %x : !s to tensor<?x?xi32>
  %ordered = arith.cmpf olt, %x, %one : !s
  %unordered = arith.cmpf ult, %x, %one : !s
  %a = arith.addf %exp, %log : !s
  %b = arith.addf %sqrt, %rsqrt : !s
  %c = arith.addf %pow, %div : !s
  %d = arith.addf %maximum, %maxnum : !s
  %e = arith.addf %round, %floor : !s
  %f = arith.sitofp %whole : tensor<?x?xi32> to !s
  %ab = arith.addf %a, %b : !s
  %cd = arith.addf %c, %d : !s
  %ef = arith.addf %e, %f : !s
  %g = arith.select %ordered, %ab, %cd : tensor<?x?xi1>, !s
  %h = arith.select %unordered, %g, %ef : tensor<?x?xi1>, !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %h, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- integers.mlir
!i = tensor<?x?xi32>
kvc.policy @integers {
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %most = arith.constant 2147483647 : i32
  %p = kvc.position : !i
  %1 = kvc.broadcast %one : i32 to !i
  %2 = kvc.broadcast %two : i32 to !i
  %last = kvc.broadcast %most : i32 to !i
  %sum = arith.addi %p, %last : !i
  %div = arith.divui %2, %p : !i
  %rem = arith.remui %2, %p : !i
  %less = arith.subi %p, %1 : !i
  %signed = arith.maxsi %p, %less : !i
  %unsigned = arith.maxui %p, %less : !i
  %xor = arith.xori %2, %p : !i
  %a = arith.addi %sum, %div : !i
  %b = arith.addi %rem, %signed : !i
  %c = arith.addi %unsigned, %xor : !i
  %d = arith.addi %a, %b : !i
  %e = arith.addi %d, %c : !i
  %s = arith.sitofp %e : !i to tensor<?x?xf32>
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- floats.json
{"k": [[[0], [-0.0], [1], [-2.5], ["nan"], ["inf"]]], "budget": 1}
//--- three.json
{"k": [[[0], [0], [0]]], "budget": 1}
