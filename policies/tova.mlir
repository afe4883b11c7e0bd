// TOVA: token omission via attention.
// Oren et al., "Transformers are Multi-State RNNs", 2024.
//
//   S[t]   mean over all Hq heads of A[h,T-1,t], one row for all KV heads
//   kept   the B - 1 best tokens, and the last one
kvc.policy @tova {
  %one   = arith.constant 1 : index
  %rows  = kvc.attention last(%one) : tensor<?x?x?xf32>
  %last  = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %score = kvc.reduce mean heads %last : tensor<?x?xf32> -> tensor<?x?xf32>
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%one) : tensor<?x?xi1>
}
