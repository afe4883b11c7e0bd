// random_policies --file logits-in-front.mlir --case kv=1,group=1,head_dim=1,special=infinities,data=377487,seq=9:1
// Queries in front of a short sequence have logit 0, but 0 times an infinite key is NaN.
kvc.policy @random {
  %window = arith.constant 31 : index
  %rows   = kvc.attention last(%window) logits : tensor<?x?x?xf32>
  %group  = kvc.reduce sum group %rows : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %score  = kvc.reduce max queries %group : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
