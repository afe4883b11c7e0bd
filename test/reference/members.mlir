// Merged rows, by hand: kvc.attention members, kvc.reduce members, kvc.since, kvc.count_rows, at_most.
// Queries are 0, so each gives every member that it sees an equal share.
// RUN: split-file %s %t
// Rows 0, 3 and 4 are there; 0 represents members 0, 1 and 2, the others themselves: of 5 members
// row 0 draws 3/5. Three rows, two may stay: the least is row 3 (of equal shares the older one), whose key is
// row 0's, so it joins that with its member; at most 3 members, so 0 and 1 go: what was drawn stays.
// RUN: kvc-opt %t/drawn.mlir --interpret --input %t/three.json | FileCheck %s --match-full-lines --check-prefix=THREE
// THREE:      scores 0: 0.6 nan nan 0.2 0.2
// THREE-NEXT: kept 0: 0 4
// THREE-NEXT: carried sum 0: 0.8 0.2
// THREE-NEXT: destination 0: -1 -1 -1 0 -1
// THREE-NEXT: members 0: 2 3 4
// THREE-NEXT: of rows 0: 0 0 4

// With room for all rows members go all the same, but no row's only one.
// RUN: kvc-opt %t/drawn.mlir --interpret --input %t/room.json | FileCheck %s --match-full-lines --check-prefix=ROOM
// ROOM:      kept 0: 0 3 4
// ROOM-NEXT: carried sum 0: 0.6 0.2 0.2
// ROOM-NEXT: destination 0: -1 -1 -1 -1 -1
// ROOM-NEXT: members 0: 2 3 4
// ROOM-NEXT: of rows 0: 0 3 4

// Where rows are not merged each is its own member.
// RUN: kvc-opt %t/drawn.mlir --interpret --input %t/plain.json | FileCheck %s --match-full-lines --check-prefix=PLAIN
// PLAIN:      scores 0: 0.5 0.5
// PLAIN-NEXT: kept 0: 1

// The largest and the mean of a row's members; each has its own key: norm times the row's, turned
// by its position, a radian a token.
// RUN: kvc-opt %t/turned.mlir --interpret --input %t/turned.json --trace | FileCheck %s --check-prefix=TURNED
// TURNED: %s = kvc.since: 3
// TURNED: %z = kvc.attention: query_heads 1, query 1, member 4
// TURNED-NEXT: 0 0: 1 1.08060461 -1.24844051 -4.94996248
// TURNED: %m = kvc.reduce: kv_heads 1, past 4
// TURNED-NEXT: 0: 1.08060461 0 0 -4.94996248
// TURNED: %a = kvc.reduce: kv_heads 1, past 4
// TURNED-NEXT: 0: 0.277388034 0 0 -4.94996248

//--- drawn.mlir
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
kvc.policy @drawn {
  %most = arith.constant 3 : index
  %none = arith.constant -1.0 : f32
  %n = kvc.new_queries
  %a = kvc.attention last(%n) members : tensor<?x?x?xf32>
  %r = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> !s
  %g = kvc.reduce mean group %r : !s -> !s
  %d = kvc.reduce sum members %g : !s -> !s
  %less = arith.negf %d : !s
  %rows = kvc.count_rows : !c
  %b = kvc.allocate uniform : !c
  %over = arith.subi %rows, %b : !c
  %go = kvc.topk %less, %over : !s, !c -> !m
  %true = arith.constant true
  %all = kvc.broadcast %true : i1 to !m
  %kept = arith.xori %go, %all : !m
  %shown = kvc.topk %d, %b : !s, !c -> !m
  %best = arith.andi %kept, %shown : !m
  %to = kvc.nearest %go in %best of raw_key at_least(%none) : !m, !m -> tensor<?x?xi32>
  kvc.keep %kept merge(%to, %d : tensor<?x?xi32>, !s) at_most(%most) carry("sum" = %d : !s) : !m
}
//--- turned.mlir
!s = tensor<?x?xf32>
kvc.policy @turned {
  %n = kvc.new_queries
  %s = kvc.since
  %b = kvc.broadcast %s : index to tensor<?x?xi32>
  %z = kvc.attention last(%n) logits members : tensor<?x?x?xf32>
  %r = kvc.reduce sum queries %z : tensor<?x?x?xf32> -> !s
  %g = kvc.reduce mean group %r : !s -> !s
  %m = kvc.reduce max members %g : !s -> !s
  %a = kvc.reduce mean members %g : !s -> !s
  %x = arith.addf %m, %a : !s
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %x, %c : !s, tensor<?xi32> -> tensor<?x?xi1>
  %p = kvc.position : tensor<?x?xi32>
  %y = arith.cmpi ult, %p, %b : tensor<?x?xi32>
  %kept = arith.andi %k, %y : tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
//--- three.json
{"k": [[[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]], "raw_k": [[[1, 0], [9, 9], [9, 9], [2, 0], [0, 1]]],
 "q": [[[0, 0]]], "budget": 2, "rows": [[1, 0, 0, 1, 1]], "new_queries": 1,
 "member_rows": [[0, 0, 0, 3, 4]], "member_norms": [[1, 2, 3, 4, 5]]}
//--- room.json
{"k": [[[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]], "raw_k": [[[1, 0], [9, 9], [9, 9], [2, 0], [0, 1]]],
 "q": [[[0, 0]]], "budget": 3, "rows": [[1, 0, 0, 1, 1]], "new_queries": 1,
 "member_rows": [[0, 0, 0, 3, 4]], "member_norms": [[1, 2, 3, 4, 5]]}
//--- plain.json
{"k": [[[0, 0], [0, 0]]], "raw_k": [[[1, 0], [0, 1]]], "q": [[[0, 0]]], "budget": 1, "new_queries": 1}
//--- turned.json
{"k": [[[0, 0], [0, 0], [0, 0], [0, 0]]], "raw_k": [[[1, 0], [0, 0], [0, 0], [1, 0]]],
 "q": [[[1, 0]]], "budget": 3, "rows": [[1, 0, 0, 1]], "new_queries": 1, "scale": 1, "since": 3,
 "member_rows": [[0, 0, 0, 3]], "member_norms": [[1, 2, 3, 5]]}
