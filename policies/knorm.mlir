// Knorm: keys of small norm attract attention.
// Devoto et al., "A Simple and Effective L2 Norm-Based Strategy for KV Cache
// Compression", 2024.
//
//   S[g,t] -||k[g,t]||_2, keys after RoPE
//   kept   the B best tokens of each KV head; no window, no sinks
kvc.policy @knorm {
  %norm  = kvc.norm l2 key : tensor<?x?xf32>
  %score = arith.negf %norm : tensor<?x?xf32>
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
