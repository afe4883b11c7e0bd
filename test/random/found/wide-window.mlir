// random_policies --file wide-window.mlir --case kv=2,group=2,head_dim=32,seq=400:90
// No window of more than 64 had ever been judged: the inputs had 70 queries.
kvc.policy @wide {
  %window = arith.constant 300 : index
  %rows   = kvc.attention last(%window) : tensor<?x?x?xf32>
  %mean   = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %score  = kvc.reduce max group %mean : tensor<?x?xf32> -> tensor<?x?xf32>
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
