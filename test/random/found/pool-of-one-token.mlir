// random_policies --file pool-of-one-token.mlir --case kv=2,group=4,head_dim=80,dtype=bf16,seq=100:50
// A pool of one token is a loop, and what was computed in it was used behind it.
kvc.policy @random {
  %window = arith.constant 16 : index
  %one    = arith.constant 1 : index
  %rows   = kvc.attention last(%window) : tensor<?x?x?xf32>
  %pooled = kvc.pool max %rows width(%one) : tensor<?x?x?xf32>
  %sum    = kvc.reduce sum queries %pooled : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %group  = kvc.reduce max group %sum : tensor<?x?xf32> -> tensor<?x?xf32>
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %group, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
