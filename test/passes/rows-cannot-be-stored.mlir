// RUN: kvc-opt %s --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes,kvc-form-kernels))"

// A statistic over tokens is known after the first rows kernel; multiplying the
// weights by it would need the weights a second time.
kvc.policy @rescaled_rows {
  %w = arith.constant 16 : index
  // expected-error @+1 {{attention rows cannot be stored: reduce them over the window before they are used by arith.mulf}}
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  %mean = kvc.reduce mean window %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %pool = kvc.pool max %mean width(%w) : tensor<?x?xf32>
  %wide = kvc.broadcast %pool : tensor<?x?xf32> to tensor<?x?x?xf32>
  %times = arith.mulf %rows, %wide : tensor<?x?x?xf32>
  %sum = kvc.reduce sum window %times : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %group = kvc.reduce mean group %sum : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %group, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}
