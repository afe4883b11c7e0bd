// random_policies --file deviations-mostly-zero.mlir --case kv=3,group=3,head_dim=9,dtype=f32,keys=random,special=none,layers=3,data=401581,seq=300:37
// The judge knew no run where most deviations of equal terms are exactly 0.
kvc.policy @p {
  %v0 = arith.constant 8 : index
  %v1 = kvc.attention last(%v0) rounded : tensor<?x?x?xf32>
  %v2 = kvc.reduce mean group %v1 : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %v3 = arith.negf %v2 : tensor<?x?x?xf32>
  %v4 = arith.constant 1 : index
  %v5 = kvc.pool mean %v3 width(%v4) : tensor<?x?x?xf32>
  %v6 = kvc.reduce mean queries %v5 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v7 = kvc.broadcast %v6 along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %v8 = arith.negf %v7 : tensor<?x?x?xf32>
  %v9 = arith.constant 2 : index
  %v10 = arith.constant 0 : index
  %v11 = kvc.segment mean %v8 length(%v9) from(%v10) : tensor<?x?x?xf32>
  %v12 = kvc.reduce std channels %v11 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v13 = arith.constant 8 : index
  %v14 = kvc.attention last(%v13) : tensor<?x?x?xf32>
  %v15 = kvc.broadcast %v12 : tensor<?x?xf32> to tensor<?x?x?xf32>
  %v16 = arith.divf %v14, %v15 : tensor<?x?x?xf32>
  %v17 = arith.subf %v16, %v16 : tensor<?x?x?xf32>
  %v18 = kvc.reduce mean group %v17 : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %v19 = kvc.reduce min queries %v18 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v20 = arith.constant 3 : index
  %v21 = kvc.pool max %v19 width(%v20) : tensor<?x?xf32>
  %v22 = kvc.broadcast %v21 along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %v23 = arith.subf %v22, %v11 : tensor<?x?x?xf32>
  %v24 = kvc.reduce mean channels %v23 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v25 = kvc.allocate uniform : tensor<?xi32>
  %v26 = kvc.topk %v24, %v25 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %v26 : tensor<?x?xi1>
}
