// random_policies --file squares-of-fp32.mlir --case kv=2,group=3,head_dim=8,dtype=f16,keys=repeated,special=none,layers=1,data=536122,seq=600:419
// The judge knew deviations whose squares no fp32 holds.
kvc.policy @p {
  %v0 = arith.constant 32 : index
  %v1 = kvc.attention last(%v0) logits : tensor<?x?x?xf32>
  %v2 = kvc.position : tensor<?x?xi32>
  %v5 = arith.uitofp %v2 : tensor<?x?xi32> to tensor<?x?xf32>
  %v7 = kvc.fill 1.0428 : tensor<?x?x?xf32>
  %v8 = arith.subf %v7, %v1 : tensor<?x?x?xf32>
  %v9 = arith.subf %v5, %v5 : tensor<?x?xf32>
  %v10 = kvc.norm l2 value : tensor<?x?xf32>
  %v12 = kvc.reduce min queries %v8 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v13 = math.expm1 %v12 : tensor<?x?xf32>
  %v18 = kvc.reduce mean heads %v5 : tensor<?x?xf32> -> tensor<?x?xf32>
  %v19 = arith.cmpf uno, %v9, %v12 : tensor<?x?xf32>
  %v20 = arith.select %v19, %v10, %v10 : tensor<?x?xi1>, tensor<?x?xf32>
  %v25 = arith.cmpf ogt, %v13, %v20 : tensor<?x?xf32>
  %v26 = arith.select %v25, %v5, %v5 : tensor<?x?xi1>, tensor<?x?xf32>
  %v27 = kvc.broadcast %v26 along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %v28 = math.exp %v27 : tensor<?x?x?xf32>
  %v30 = arith.minnumf %v20, %v18 : tensor<?x?xf32>
  %v39 = arith.constant -1.2460 : f32
  %v40 = kvc.broadcast %v39 along channels : f32 to tensor<?x?x?xf32>
  %v41 = arith.maxnumf %v40, %v28 : tensor<?x?x?xf32>
  %v51 = arith.cmpf ugt, %v13, %v9 : tensor<?x?xf32>
  %v52 = arith.select %v51, %v13, %v10 : tensor<?x?xi1>, tensor<?x?xf32>
  %v53 = kvc.reduce max group %v52 : tensor<?x?xf32> -> tensor<?x?xf32>
  %v56 = kvc.reduce mean group %v30 : tensor<?x?xf32> -> tensor<?x?xf32>
  %v58 = kvc.reduce std channels %v41 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v59 = kvc.reduce min group %v58 : tensor<?x?xf32> -> tensor<?x?xf32>
  %v60 = math.tanh %v53 : tensor<?x?xf32>
  %v61 = arith.mulf %v59, %v60 : tensor<?x?xf32>
  %v62 = arith.mulf %v61, %v56 : tensor<?x?xf32>
  %v63 = kvc.allocate uniform : tensor<?xi32>
  %v64 = kvc.topk %v62, %v63 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %v64 : tensor<?x?xi1>
}
