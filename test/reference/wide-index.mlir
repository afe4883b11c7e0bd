// Numbers of type index have all of their 64 bits: below 0 they wrap, and what is made of
// the wrapped number is exact. A double would hold 53 bits.
// RUN: split-file %s %t
// RUN: kvc-opt %t/wide.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines
// 2 - 3 = 2^64 - 1 = 18446744073709551615, shown with its sign.
// CHECK:      %below = arith.subi: -1
// CHECK-NEXT: %tenth = arith.divui: 1844674407370955161
// CHECK-NEXT: %digit = arith.remui: 1
// 2^53 + 1 less 2^53.
// CHECK:      %odd = arith.subi: 1
// CHECK-NEXT: %more = arith.cmpi: 1
// CHECK-NEXT: %which = arith.select: 9007199254740993
// (2^62 + 1) * 2 / 2, without what wraps: 2^62 + 1; its lower half as i32 is 1.
// CHECK:      %scaled = kvc.scale_count: 4611686018427387905
// CHECK:      %count = kvc.broadcast: one_head 1
// CHECK-NEXT:  1

//--- wide.mlir
kvc.policy @wide {
  %two    = kvc.budget
  %three  = kvc.length
  %ten    = arith.constant 10 : index
  %below  = arith.subi %two, %three : index
  %tenth  = arith.divui %below, %ten : index
  %digit  = arith.remui %tenth, %ten : index
  %a      = arith.constant 9007199254740993 : index
  %b      = arith.constant 9007199254740992 : index
  %odd    = arith.subi %a, %b : index
  %more   = arith.cmpi ugt, %a, %b : index
  %which  = arith.select %more, %a, %b : index
  %wide   = arith.constant 4611686018427387905 : index
  %all    = kvc.fraction "1"
  %scaled = kvc.scale_count %wide by(%all) : index
  %count  = kvc.broadcast %scaled : index to tensor<?xi32>
  %s      = kvc.norm l1 key : tensor<?x?xf32>
  %m      = kvc.topk %s, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  // So that nothing of the above is unused.
  %i      = arith.index_cast %digit : index to i32
  %j      = arith.index_cast %odd : index to i32
  %k      = arith.index_cast %which : index to i32
  %ij     = arith.addi %i, %j : i32
  %ijk    = arith.addi %ij, %k : i32
  %n      = kvc.broadcast %ijk : i32 to tensor<?xi32>
  %o      = kvc.topk %s, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %p      = arith.andi %m, %o : tensor<?x?xi1>
  kvc.keep %p : tensor<?x?xi1>
}
//--- in.json
{"k": [[[5], [6], [7]]], "budget": 2}
