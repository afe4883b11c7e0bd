// random_policies --file rows-against-their-mean.mlir --case kv=2,group=2,head_dim=32,seq=64:20
// Rows used what is reduced over queries in the same kernel.
!rows = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @var {
  %n = arith.constant 8 : index
  %rows = kvc.attention last(%n) : !rows
  %m = kvc.reduce mean queries %rows : !rows -> !scores
  %b = kvc.broadcast %m : !scores to !rows
  %d = arith.subf %rows, %b : !rows
  %s = arith.mulf %d, %d : !rows
  %v = kvc.reduce mean queries %s : !rows -> !scores
  %g = kvc.reduce mean group %v : !scores -> !scores
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %g, %c : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%n) : tensor<?x?xi1>
}
