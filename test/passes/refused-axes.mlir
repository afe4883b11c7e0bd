// RUN: kvc-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes))"

// ReduceOp C4: a statistic over tokens of attention rows would need all of a row.
kvc.policy @tokens_of_rows {
  %w = arith.constant 4 : index
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  // expected-error @+1 {{over tokens needs scores, or channels per KV head}}
  %x = kvc.reduce max tokens %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// AllocateHeadsOp C1: scores per query head.
kvc.policy @heads_of_queries {
  %w = arith.constant 4 : index
  %guard = kvc.fraction "0.5"
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  %m = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %b = kvc.allocate uniform : tensor<?xi32>
  // expected-error @+1 {{score must be per KV head, got a value per query head}}
  %h = kvc.allocate_heads %m base(%b) safeguard(%guard) : tensor<?x?xf32>, tensor<?xi32>
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %h : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// KeepOp C1
kvc.policy @carried_by_query_heads {
  %w = arith.constant 4 : index
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  %s = kvc.reduce sum queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  // expected-error @+1 {{the number that rows carry must be per KV head, got a value per query head; reduce it over the group first}}
  kvc.keep %k carry("s" = %s : tensor<?x?xf32>) : tensor<?x?xi1>
}
