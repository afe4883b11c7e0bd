// random_policies --file channels-in-pools-of-vectors.mlir --case kv=1,group=1,head_dim=128,seq=90:81
// Each sum of channels was made again for every neighbour and channel of the pools behind it: minutes.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @p {
  %width = arith.constant 5 : index
  %keys  = kvc.vectors key : !r
  %sum   = kvc.reduce sum channels %keys : !r -> !s
  %wide  = kvc.broadcast %sum along channels : !s to !r
  %less  = arith.subf %keys, %wide : !r
  %near  = kvc.pool mean %less width(%width) : !r
  %sum2  = kvc.reduce std channels %near : !r -> !s
  %wide2 = kvc.broadcast %sum2 along channels : !s to !r
  %less2 = arith.subf %near, %wide2 : !r
  %near2 = kvc.pool mean %less2 width(%width) : !r
  %near3 = kvc.pool max %near2 width(%width) : !r
  %score = kvc.reduce max channels %near3 : !r -> !s
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
