// kvc.row_state, kvc.new_queries and carry of kvc.keep, by hand. Query and key are 0 where nothing
// else is said, so a query gives each row that it sees an equal share.
// RUN: split-file %s %t
// Behind a prompt all four queries are new, and no row has carried anything: 0 has drawn
// 1 + 1/2 + 1/3 + 1/4, 1 the same without 1, and so on; the last row is the window.
// RUN: kvc-opt %t/mass.mlir --interpret --input %t/prompt.json | FileCheck %s --match-full-lines --check-prefix=PROMPT
// PROMPT:      scores 0: 2.08333333 1.08333333 0.583333333
// PROMPT-NEXT: kept 0: 0 1 3
// PROMPT-NEXT: carried mass 0: 2.08333333 1.08333333 0.25
// PROMPT-NEXT: carried runs 0: 1 1 1

// The next token: rows 0, 1 and 3 are there, row 4 is new and carries 0. Its query gives each
// a quarter. Row 3 goes: it has drawn least.
// RUN: kvc-opt %t/mass.mlir --interpret --input %t/next.json | FileCheck %s --match-full-lines --check-prefix=NEXT
// NEXT:      scores 0: 2.25 1.25 nan 0.5
// NEXT-NEXT: kept 0: 0 1 4
// NEXT-NEXT: carried mass 0: 2.25 1.25 0.25
// NEXT-NEXT: carried runs 0: 2 2 1

// With room for all nothing is ranked, and rows carry on all the same.
// RUN: kvc-opt %t/mass.mlir --interpret --input %t/room.json | FileCheck %s --match-full-lines --check-prefix=ROOM
// ROOM:      kept 0: 0 1 3 4
// ROOM-NEXT: carried mass 0: 2.25 1.25 0.5 0.25
// ROOM-NEXT: carried runs 0: 2 2 2 1

// Of no new query there is nothing to add.
// RUN: kvc-opt %t/mass.mlir --interpret --input %t/none.json | FileCheck %s --match-full-lines --check-prefix=NO
// NO:      scores 0: 2 1 nan 0.5
// NO-NEXT: kept 0: 0 1 4
// NO-NEXT: carried mass 0: 2 1 0
// NO-NEXT: carried runs 0: 2 2 1

// The number itself.
// RUN: kvc-opt %t/count.mlir --interpret --input %t/next.json --trace | FileCheck %s --check-prefix=COUNT
// COUNT: %n = kvc.new_queries: 1
// RUN: kvc-opt %t/count.mlir --interpret --input %t/prompt.json --trace | FileCheck %s --check-prefix=ALL
// ALL: %n = kvc.new_queries: 4

// Token 1 joins token 0, whose key is like its own, and what both carry is added; token 2
// joins nobody and is gone.
// RUN: kvc-opt %t/merged.mlir --interpret --input %t/merged.json | FileCheck %s --match-full-lines --check-prefix=MERGED
// MERGED: carried age 0: 15 4
// MERGED-NEXT: destination 0: -1 0 -1

//--- mass.mlir
!s = tensor<?x?xf32>
kvc.policy @mass {
  %one = arith.constant 1 : index
  %n = kvc.new_queries
  %a = kvc.attention last(%n) : tensor<?x?x?xf32>
  %r = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> !s
  %g = kvc.reduce mean group %r : !s -> !s
  %old = kvc.row_state "mass" : !s
  %mass = arith.addf %old, %g : !s
  %before = kvc.row_state "runs" : !s
  %ones = kvc.fill 1.0 : !s
  %runs = arith.addf %before, %ones : !s
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %mass, %c : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%one) carry("mass" = %mass : !s, "runs" = %runs : !s) : tensor<?x?xi1>
}
//--- count.mlir
kvc.policy @count {
  %n = kvc.new_queries
  %b = kvc.broadcast %n : index to tensor<?x?xi32>
  %p = kvc.position : tensor<?x?xi32>
  %m = arith.cmpi ult, %p, %b : tensor<?x?xi32>
  kvc.keep %m : tensor<?x?xi1>
}
//--- merged.mlir
!s = tensor<?x?xf32>
kvc.policy @merged {
  %one = arith.constant 1 : index
  %tau = arith.constant 0.9 : f32
  %age = kvc.row_state "age" : !s
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %age, %c : !s, tensor<?xi32> -> tensor<?x?xi1>
  %true = arith.constant true
  %all = kvc.broadcast %true : i1 to tensor<?x?xi1>
  %rest = arith.xori %k, %all : tensor<?x?xi1>
  %d = kvc.nearest %rest in %k of key at_least(%tau) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
  kvc.keep %k merge(%d, %age : tensor<?x?xi32>, !s) protect_last(%one) carry("age" = %age : !s) : tensor<?x?xi1>
}
//--- prompt.json
{"k": [[[0], [0], [0], [0]]], "q": [[[0], [0], [0], [0]]], "budget": 3}
//--- next.json
{"k": [[[0], [0], [9], [0], [0]]], "q": [[[7], [0]]], "budget": 3, "rows": [[1, 1, 0, 1, 1]], "new_queries": 1,
 "row_states": {"mass": [[2, 1, 99, 0.25, 0]], "runs": [[1, 1, 99, 1, 0]]}}
//--- room.json
{"k": [[[0], [0], [9], [0], [0]]], "q": [[[0]]], "budget": 9, "rows": [[1, 1, 0, 1, 1]], "new_queries": 1,
 "row_states": {"mass": [[2, 1, 99, 0.25, 0]], "runs": [[1, 1, 99, 1, 0]]}}
//--- none.json
{"k": [[[0], [0], [9], [0], [0]]], "q": [[[0]]], "budget": 3, "rows": [[1, 1, 0, 1, 1]], "new_queries": 0,
 "row_states": {"mass": [[2, 1, 99, 0.5, 0]], "runs": [[1, 1, 99, 1, 0]]}}
//--- merged.json
{"k": [[[1, 0], [2, 0], [0, 1], [1, 1]]], "raw_k": [[[1, 0], [2, 0], [0, 1], [1, 1]]],
 "v": [[[1, 0], [1, 0], [1, 0], [1, 0]]], "budget": 2, "row_states": {"age": [[10, 5, 3, 4]], "other": [[0, 0, 0, 0]]}}
