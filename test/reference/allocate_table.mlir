// kvc.allocate_table: 1 for every head and 2 more on average, two layers of two KV heads,
// 12 in all. The table gives them 1/4, 1/4, 1/2 and 0: 1 + 2, 1 + 2, 1 + 4, 1 + 0.
// RUN: split-file %s %t
// RUN: kvc-opt %t/table.mlir --interpret --trace --input %t/first.json | FileCheck %s --match-full-lines --check-prefix=FIRST
// FIRST:      %n = kvc.allocate_table: kv_heads 2
// FIRST-NEXT: 3 3
// RUN: kvc-opt %t/table.mlir --interpret --trace --input %t/second.json | FileCheck %s --match-full-lines --check-prefix=SECOND
// SECOND:      %n = kvc.allocate_table: kv_heads 2
// SECOND-NEXT: 5 1
// The same table, written for the two query heads of each KV head.
// RUN: kvc-opt %t/table.mlir --interpret --trace --input %t/grouped.json | FileCheck %s --match-full-lines --check-prefix=SECOND

// A past of 4: 5 becomes 4, the other 8 go 3 : 3 : 1, which is 24/7, 24/7, 8/7. Floors leave
// 1, and of equal remainders it is the smaller head's, that of layer 0.
// RUN: kvc-opt %t/table.mlir --interpret --trace --input %t/capped.json | FileCheck %s --match-full-lines --check-prefix=CAPPED
// CAPPED:      %n = kvc.allocate_table: kv_heads 2
// CAPPED-NEXT: 4 3
// RUN: kvc-opt %t/table.mlir --interpret --trace --input %t/capped1.json | FileCheck %s --match-full-lines --check-prefix=CAPPED1
// CAPPED1:      %n = kvc.allocate_table: kv_heads 2
// CAPPED1-NEXT: 4 1

// Nothing for every head, 3 by the table: of 12 a quarter, a quarter, a half and none.
// RUN: kvc-opt %t/table.mlir --interpret --trace --param base=0 --param shared=3 --input %t/second.json | FileCheck %s --match-full-lines --check-prefix=ZERO
// ZERO:      %n = kvc.allocate_table: kv_heads 2
// ZERO-NEXT: 6 0
// All of it to one head: 8 fit, the other 4 go equally to heads without importance, 4/3
// each: floors leave 1, and head 0 comes before head 1, layer 0 before layer 1.
// RUN: kvc-opt %t/table.mlir --interpret --trace --param base=0 --param shared=3 --input %t/alone.json | FileCheck %s --match-full-lines --check-prefix=ALONE
// ALONE:      %n = kvc.allocate_table: kv_heads 2
// ALONE-NEXT: 2 1
// More than there is: all of the past. Nothing: nothing.
// RUN: kvc-opt %t/table.mlir --interpret --trace --param base=9 --input %t/second.json | FileCheck %s --match-full-lines --check-prefix=MORE
// RUN: kvc-opt %t/table.mlir --interpret --trace --param base=9223372036854775807 --param shared=9223372036854775807 --input %t/second.json | FileCheck %s --match-full-lines --check-prefix=MORE
// MORE:      %n = kvc.allocate_table: kv_heads 2
// MORE-NEXT: 8 8
// RUN: kvc-opt %t/table.mlir --interpret --trace --param base=0 --param shared=0 --input %t/second.json | FileCheck %s --match-full-lines --check-prefix=NONE
// NONE:      %n = kvc.allocate_table: kv_heads 2
// NONE-NEXT: 0 0

//--- table.mlir
kvc.policy @table {
  %base = kvc.param "base" = 1 : index
  %shared = kvc.param "shared" = 2 : index
  %s = kvc.norm l2 key : tensor<?x?xf32>
  %n = kvc.allocate_table base(%base) shared(%shared) : tensor<?xi32>
  %m = kvc.topk %s, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- first.json
{"k": [[[0], [0], [0], [0], [0], [0], [0], [0]], [[0], [0], [0], [0], [0], [0], [0], [0]]],
 "budget": 3, "layers": 2, "layer": 0, "table": [[1, 1], [2, 0]]}
//--- second.json
{"k": [[[0], [0], [0], [0], [0], [0], [0], [0]], [[0], [0], [0], [0], [0], [0], [0], [0]]],
 "budget": 3, "layers": 2, "layer": 1, "table": [[1, 1], [2, 0]]}
//--- grouped.json
{"k": [[[0], [0], [0], [0], [0], [0], [0], [0]], [[0], [0], [0], [0], [0], [0], [0], [0]]],
 "budget": 3, "layers": 2, "layer": 1, "table": [[0.25, 0.75, 1, 0], [0.5, 1.5, 0, 0]]}
//--- capped.json
{"k": [[[0], [0], [0], [0]], [[0], [0], [0], [0]]],
 "budget": 3, "layers": 2, "layer": 0, "table": [[1, 1], [2, 0]]}
//--- capped1.json
{"k": [[[0], [0], [0], [0]], [[0], [0], [0], [0]]],
 "budget": 3, "layers": 2, "layer": 1, "table": [[1, 1], [2, 0]]}
//--- alone.json
{"k": [[[0], [0], [0], [0], [0], [0], [0], [0]], [[0], [0], [0], [0], [0], [0], [0], [0]]],
 "budget": 3, "layers": 2, "layer": 0, "table": [[0, 0], [1, 0]]}
