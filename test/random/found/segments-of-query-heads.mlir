// random_policies --file segments-of-query-heads.mlir --case kv=1,group=2,head_dim=32,seq=100:30
// All members of the group were set against the first one's segment.
kvc.policy @random {
  %n = kvc.projected_norm l2 : tensor<?x?xf32>
  %x = kvc.broadcast %n along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %c = arith.constant 4 : index
  %f = arith.constant 0 : index
  %s = kvc.segment max %x length(%c) from(%f) : tensor<?x?x?xf32>
  %g = kvc.reduce max group %s : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %y = kvc.reduce max channels %g : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %b = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %y, %b : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}
