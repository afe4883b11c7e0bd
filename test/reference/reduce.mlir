// kvc.reduce: every axis and kind. NaN goes through all of them, max and min too.
// RUN: split-file %s %t
// RUN: kvc-opt %t/channels.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=CHANNELS

// KV head 0: (1, 3), (2, 2), (-1, NaN); KV head 1: (0, 4), (5, 5), (1, -1).
// Standard deviations of two numbers are half their distance.
// CHANNELS:      %mean = kvc.reduce: kv_heads 2, past 3
// CHANNELS-NEXT: 0: 2 2 nan
// CHANNELS-NEXT: 1: 2 5 0
// CHANNELS-NEXT: %sum = kvc.reduce: kv_heads 2, past 3
// CHANNELS-NEXT: 0: 4 4 nan
// CHANNELS-NEXT: 1: 4 10 0
// CHANNELS-NEXT: %max = kvc.reduce: kv_heads 2, past 3
// CHANNELS-NEXT: 0: 3 2 nan
// CHANNELS-NEXT: 1: 4 5 1
// CHANNELS-NEXT: %min = kvc.reduce: kv_heads 2, past 3
// CHANNELS-NEXT: 0: 1 2 nan
// CHANNELS-NEXT: 1: 0 5 -1
// CHANNELS-NEXT: %std = kvc.reduce: kv_heads 2, past 3
// CHANNELS-NEXT: 0: 1 0 nan
// CHANNELS-NEXT: 1: 2 0 1

// Over tokens, each channel: (1 + 2 - 1) / 3, NaN; (0 + 5 + 1) / 3, (4 + 5 - 1) / 3.
// RUN: kvc-opt %t/tokens.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=TOKENS
// TOKENS:      %vectors = kvc.reduce: kv_heads 2, channel 2
// TOKENS-NEXT: 0: 0.666666667 nan
// TOKENS-NEXT: 1: 2 2.66666667
// Of the channels' sums, 4 10 0 in head 1: mean 14/3, and the root of the mean of
// (-2/3)^2 + (16/3)^2 + (-14/3)^2 = 456/9, of 152/9.
// TOKENS:      %mean = kvc.reduce: kv_heads 2
// TOKENS-NEXT: nan 4.66666667
// TOKENS-NEXT: %std = kvc.reduce: kv_heads 2
// TOKENS-NEXT: nan 4.10960934
// TOKENS-NEXT: %max = kvc.reduce: kv_heads 2
// TOKENS-NEXT: nan 10
// TOKENS-NEXT: %min = kvc.reduce: kv_heads 2
// TOKENS-NEXT: nan 0
// TOKENS-NEXT: %sum = kvc.reduce: kv_heads 2
// TOKENS-NEXT: nan 14

// Over heads: 2 2 NaN and 2 5 0 in one row for all.
// RUN: kvc-opt %t/heads.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=HEADS
// HEADS:      %mean = kvc.reduce: one_head 1, past 3
// HEADS-NEXT: 0: 2 3.5 nan
// HEADS-NEXT: %sum = kvc.reduce: one_head 1, past 3
// HEADS-NEXT: 0: 4 7 nan
// HEADS-NEXT: %max = kvc.reduce: one_head 1, past 3
// HEADS-NEXT: 0: 2 5 nan
// HEADS-NEXT: %min = kvc.reduce: one_head 1, past 3
// HEADS-NEXT: 0: 2 2 nan

// Two queries of four query heads, KV head 0 with (1, 0) (1, 1) and (0, 1) (0, 0), KV head 1
// with (1, 1) (1, 0) and (2, 0) (0, 0).
// RUN: kvc-opt %t/rows.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines --check-prefix=ROWS
// ROWS:      %q = kvc.attention: query_heads 4, query 2, past 3
// ROWS-NEXT: 0 0: 1 2 nan
// ROWS-NEXT: 0 1: 4 4 nan
// ROWS-NEXT: 1 0: 3 2 nan
// ROWS-NEXT: 1 1: 0 0 nan
// ROWS-NEXT: 2 0: 4 10 0
// ROWS-NEXT: 2 1: 0 5 1
// ROWS-NEXT: 3 0: 0 10 2
// ROWS-NEXT: 3 1: 0 0 0
// ROWS-NEXT: %mean = kvc.reduce: query_heads 4, past 3
// ROWS-NEXT: 0: 2.5 3 nan
// ROWS-NEXT: 1: 1.5 1 nan
// ROWS-NEXT: 2: 2 7.5 0.5
// ROWS-NEXT: 3: 0 5 1
// ROWS-NEXT: %sum = kvc.reduce: query_heads 4, past 3
// ROWS-NEXT: 0: 5 6 nan
// ROWS-NEXT: 1: 3 2 nan
// ROWS-NEXT: 2: 4 15 1
// ROWS-NEXT: 3: 0 10 2
// ROWS-NEXT: %max = kvc.reduce: query_heads 4, past 3
// ROWS-NEXT: 0: 4 4 nan
// ROWS-NEXT: 1: 3 2 nan
// ROWS-NEXT: 2: 4 10 1
// ROWS-NEXT: 3: 0 10 2
// ROWS-NEXT: %min = kvc.reduce: query_heads 4, past 3
// ROWS-NEXT: 0: 1 2 nan
// ROWS-NEXT: 1: 0 0 nan
// ROWS-NEXT: 2: 0 5 0
// ROWS-NEXT: 3: 0 0 0
// ROWS-NEXT: %mean_g = kvc.reduce: kv_heads 2, past 3
// ROWS-NEXT: 0: 2 2 nan
// ROWS-NEXT: 1: 1 6.25 0.75
// ROWS-NEXT: %sum_g = kvc.reduce: kv_heads 2, past 3
// ROWS-NEXT: 0: 8 8 nan
// ROWS-NEXT: 1: 4 25 3
// ROWS-NEXT: %max_g = kvc.reduce: kv_heads 2, past 3
// ROWS-NEXT: 0: 4 4 nan
// ROWS-NEXT: 1: 4 10 2
// ROWS-NEXT: %min_g = kvc.reduce: kv_heads 2, past 3
// ROWS-NEXT: 0: 0 0 nan
// ROWS-NEXT: 1: 0 0 0

//--- channels.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @reduce {
  %k = kvc.vectors key : !r
  %mean = kvc.reduce mean channels %k : !r -> !s
  %sum = kvc.reduce sum channels %k : !r -> !s
  %max = kvc.reduce max channels %k : !r -> !s
  %min = kvc.reduce min channels %k : !r -> !s
  %std = kvc.reduce std channels %k : !r -> !s
  %1 = arith.addf %mean, %sum : !s
  %2 = arith.addf %1, %max : !s
  %3 = arith.addf %2, %min : !s
  %s = arith.addf %3, %std : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- tokens.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!h = tensor<?xf32>
kvc.policy @reduce {
  %k = kvc.vectors key : !r
  %vectors = kvc.reduce mean tokens %k : !r -> !s
  %each = kvc.broadcast %vectors : !s to !r
  %both = arith.addf %each, %k : !r
  %t = kvc.reduce sum channels %both : !r -> !s
  %x = kvc.reduce sum channels %k : !r -> !s
  %mean = kvc.reduce mean tokens %x : !s -> !h
  %std = kvc.reduce std tokens %x : !s -> !h
  %max = kvc.reduce max tokens %x : !s -> !h
  %min = kvc.reduce min tokens %x : !s -> !h
  %sum = kvc.reduce sum tokens %x : !s -> !h
  %1 = arith.addf %mean, %std : !h
  %2 = arith.addf %1, %max : !h
  %3 = arith.addf %2, %min : !h
  %4 = arith.addf %3, %sum : !h
  %5 = kvc.broadcast %4 : !h to !s
  %s = arith.addf %5, %t : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- heads.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @reduce {
  %k = kvc.vectors key : !r
  %x = kvc.reduce mean channels %k : !r -> !s
  %mean = kvc.reduce mean heads %x : !s -> !s
  %sum = kvc.reduce sum heads %x : !s -> !s
  %max = kvc.reduce max heads %x : !s -> !s
  %min = kvc.reduce min heads %x : !s -> !s
  %1 = arith.addf %mean, %sum : !s
  %2 = arith.addf %1, %max : !s
  %s = arith.addf %2, %min : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
// In a cache of rows a token counts in the heads that have a row of it. Token 0: head 0
// alone, 2 / 2 in the mean; token 1: both; token 2: head 1 alone, -3, also the largest;
// token 3 nobody has. Over the tokens that some head has the largest is 5.
// RUN: kvc-opt %t/gaps.mlir --interpret --trace --input %t/gaps.json | FileCheck %s --match-full-lines --check-prefix=GAPS
// GAPS:      %mean = kvc.reduce: one_head 1, past 4
// GAPS-NEXT: 0: 1 4.5 -1.5 0
// GAPS-NEXT: %max = kvc.reduce: one_head 1, past 4
// GAPS-NEXT: 0: 2 5 -3 0
// GAPS-NEXT: %best = kvc.reduce: one_head 1
// GAPS-NEXT: 5

//--- gaps.mlir
!s = tensor<?x?xf32>
kvc.policy @gaps {
  %k = kvc.vectors key : tensor<?x?x?xf32>
  %x = kvc.reduce sum channels %k : tensor<?x?x?xf32> -> !s
  %mean = kvc.reduce mean heads %x : !s -> !s
  %max = kvc.reduce max heads %x : !s -> !s
  %best = kvc.reduce max tokens %max : !s -> tensor<?xf32>
  %b = kvc.broadcast %best : tensor<?xf32> to !s
  %rel = arith.subf %max, %b : !s
  %s = arith.addf %mean, %rel : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- gaps.json
{"k": [[[2], [4], [9], [9]], [[9], [5], [-3], [9]]], "rows": [[1, 1, 0, 0], [0, 1, 1, 0]], "budget": 1}
//--- rows.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @reduce {
  %two = arith.constant 2 : index
  %q = kvc.attention last(%two) logits : !r
  %mean = kvc.reduce mean queries %q : !r -> !s
  %sum = kvc.reduce sum queries %q : !r -> !s
  %max = kvc.reduce max queries %q : !r -> !s
  %min = kvc.reduce min queries %q : !r -> !s
  %mean_g = kvc.reduce mean group %mean : !s -> !s
  %sum_g = kvc.reduce sum group %sum : !s -> !s
  %max_g = kvc.reduce max group %max : !s -> !s
  %min_g = kvc.reduce min group %min : !s -> !s
  %1 = arith.addf %mean_g, %sum_g : !s
  %2 = arith.addf %1, %max_g : !s
  %s = arith.addf %2, %min_g : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- in.json
{"k": [[[1, 3], [2, 2], [-1, "nan"]], [[0, 4], [5, 5], [1, -1]]],
 "q": [[[1, 0], [1, 1]], [[0, 1], [0, 0]], [[1, 1], [1, 0]], [[2, 0], [0, 0]]],
 "budget": 1, "scale": 1}
