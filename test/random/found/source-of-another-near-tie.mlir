// random_policies --file source-of-another-near-tie.mlir --case kv=2,group=1,head_dim=16,dtype=f16,keys=random,special=none,layers=1,data=193193,seq=63:28,seq=90:1
// The judge took a token for a member whose destination another near tie had dropped.
kvc.policy @p {
  %v0 = arith.constant 8 : index
  %v1 = kvc.attention last(%v0) : tensor<?x?x?xf32>
  %v2 = kvc.reduce sum heads %v1 : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %v3 = kvc.reduce min queries %v1 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v4 = kvc.broadcast %v3 along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %v5 = kvc.broadcast %v3 along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %v6 = kvc.reduce std channels %v4 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v8 = kvc.reduce mean channels %v5 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v9 = kvc.broadcast %v6 along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %v10 = kvc.reduce min queries %v2 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v11 = kvc.reduce mean channels %v9 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v14 = kvc.reduce min heads %v11 : tensor<?x?xf32> -> tensor<?x?xf32>
  %v19 = math.fma %v10, %v11, %v8 : tensor<?x?xf32>
  %v20 = arith.fptoui %v8 : tensor<?x?xf32> to tensor<?x?xi32>
  %v21 = arith.sitofp %v20 : tensor<?x?xi32> to tensor<?x?xf32>
  %v25 = kvc.broadcast %v21 along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %v26 = kvc.broadcast %v19 along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %v28 = kvc.reduce max heads %v25 : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %v31 = kvc.reduce mean channels %v26 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v32 = kvc.reduce sum heads %v31 : tensor<?x?xf32> -> tensor<?x?xf32>
  %v33 = kvc.reduce sum channels %v28 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %v34 = arith.mulf %v32, %v33 : tensor<?x?xf32>
  %v35 = arith.maximumf %v34, %v14 : tensor<?x?xf32>
  %v36 = kvc.allocate uniform : tensor<?xi32>
  %v37 = kvc.topk %v35, %v36 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %v38 = arith.constant 0.5 : f32
  %v39 = kvc.nearest %v37 in %v37 of raw_key at_least(%v38) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
  %v40 = math.absf %v35 : tensor<?x?xf32>
  %v41 = arith.constant 8 : index
  kvc.keep %v37 merge(%v39, %v40 : tensor<?x?xi32>, tensor<?x?xf32>) share_positions protect_last(%v41) : tensor<?x?xi1>
}
