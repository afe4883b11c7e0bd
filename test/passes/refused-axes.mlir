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

// -----

// ReduceOp C4: members are of rows.
kvc.policy @members_of_rows {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{over members needs a value per member and KV head, got one per row}}
  %x = kvc.reduce sum members %n : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %x, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// ReduceOp C4: and of KV heads.
kvc.policy @members_of_queries {
  %n = kvc.new_queries
  %a = kvc.attention last(%n) members : tensor<?x?x?xf32>
  %r = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // expected-error @+1 {{over members needs a value per member and KV head, got one per query head}}
  %x = kvc.reduce sum members %r : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %x, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// ReduceOp C4
kvc.policy @heads_of_members {
  %n = kvc.new_queries
  %a = kvc.attention last(%n) members : tensor<?x?x?xf32>
  %r = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // expected-error @+1 {{over heads needs a value per row, got one per member}}
  %x = kvc.reduce sum heads %r : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %x, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// ReduceOp C4
kvc.policy @tokens_of_members {
  %n = kvc.new_queries
  %a = kvc.attention last(%n) members : tensor<?x?x?xf32>
  %r = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %r : tensor<?x?xf32> -> tensor<?x?xf32>
  // expected-error @+1 {{over tokens needs a value per row, got one per member}}
  %x = kvc.reduce sum tokens %g : tensor<?x?xf32> -> tensor<?xf32>
  %b = kvc.broadcast %x : tensor<?xf32> to tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %b, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}

// -----

// Members are not ranked, rows are.
kvc.policy @ranked_members {
  %n = kvc.new_queries
  %a = kvc.attention last(%n) members : tensor<?x?x?xf32>
  %r = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %r : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // expected-error @+1 {{a value per member must be reduced over the members of each row (kvc.reduce members) before it is used by kvc.topk}}
  %k = kvc.topk %g, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}
