// random_policies --file layer-shares-per-token.mlir --case kv=2,group=2,head_dim=32,layers=3,seq=100:30
// Lanes that had parted computed a share together.
!scores = tensor<?x?xf32>
kvc.policy @layers_score {
  %beta = kvc.fraction "2"
  %n = kvc.norm l2 key : !scores
  %w3 = arith.constant 3 : index
  %pn = kvc.pool max %n width(%w3) : !scores
  %c = kvc.allocate_layers ratio(%beta) : tensor<?xi32>
  %wide = kvc.broadcast %c : tensor<?xi32> to tensor<?x?xi32>
  %p = kvc.position : tensor<?x?xi32>
  %m = arith.cmpi slt, %p, %wide : tensor<?x?xi32>
  %z = kvc.fill 0.0 : !scores
  %s = arith.select %m, %pn, %z : tensor<?x?xi1>, !scores
  %ps = kvc.pool mean %s width(%w3) : !scores
  %u = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %ps, %u : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k : tensor<?x?xi1>
}
