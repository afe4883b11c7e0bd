// random_policies --file logits-of-two-kernels.mlir --case kv=3,group=1,head_dim=16,dtype=f16,keys=random,special=infinities,layers=2,data=619540,seq=255:158
// The least logit was not the least: two kernels rounded it differently.
kvc.policy @p {
  %v0 = arith.constant 7 : index
  %v1 = kvc.attention last(%v0) logits : tensor<?x?x?xf32>
  %v2 = kvc.reduce min queries %v1 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v3 = kvc.broadcast %v2 : tensor<?x?xf32> to tensor<?x?x?xf32>
  %v4 = arith.cmpf uge, %v3, %v1 : tensor<?x?x?xf32>
  %v5 = kvc.fill -0.647 : tensor<?x?x?xf32>
  %v6 = arith.select %v4, %v1, %v5 : tensor<?x?x?xi1>, tensor<?x?x?xf32>
  %v7 = arith.minimumf %v6, %v6 : tensor<?x?x?xf32>
  %v8 = arith.negf %v7 : tensor<?x?x?xf32>
  %v9 = arith.constant 1 : index
  %v10 = kvc.pool max %v8 width(%v9) : tensor<?x?x?xf32>
  %v11 = arith.constant 1 : index
  %v12 = kvc.pool mean %v10 width(%v11) : tensor<?x?x?xf32>
  %v13 = kvc.reduce min heads %v12 : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %v14 = kvc.reduce max queries %v13 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v15 = arith.constant 1024 : index
  %v16 = arith.constant 4 : index
  %v17 = kvc.segment softmax %v14 length(%v15) from(%v16) : tensor<?x?xf32>
  %v18 = kvc.segment rank %v17 length(%v15) from(%v16) : tensor<?x?xf32>
  %v19 = arith.constant 5 : index
  %v20 = kvc.pool mean %v18 width(%v19) : tensor<?x?xf32>
  %v21 = kvc.reduce mean tokens %v20 : tensor<?x?xf32> -> tensor<?xf32>
  %v22 = kvc.broadcast %v21 : tensor<?xf32> to tensor<?x?xf32>
  %v23 = arith.cmpf uge, %v22, %v14 : tensor<?x?xf32>
  %v24 = kvc.fill 1.026 : tensor<?x?xf32>
  %v25 = arith.select %v23, %v14, %v24 : tensor<?x?xi1>, tensor<?x?xf32>
  %v26 = arith.constant 3 : index
  %v27 = kvc.pool mean %v25 width(%v26) count_padding : tensor<?x?xf32>
  %v28 = kvc.allocate uniform : tensor<?xi32>
  %v29 = kvc.topk %v27, %v28 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %v29 : tensor<?x?xi1>
}
