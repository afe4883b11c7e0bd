// RUN: kvc-opt %s --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes,kvc-form-kernels))"

// ReduceOp C5: rows per head would wait for the same rows of all heads.
kvc.policy @share_of_heads {
  %w = arith.constant 16 : index
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  %all = kvc.reduce sum heads %rows : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  // expected-error @+1 {{rows that are reduced over all heads must be reduced over queries before they are used with rows per head}}
  %share = arith.divf %rows, %all : tensor<?x?x?xf32>
  %sum = kvc.reduce sum queries %share : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %group = kvc.reduce mean group %sum : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %group, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}
