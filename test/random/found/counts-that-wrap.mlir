// random_policies --file counts-that-wrap.mlir --case kv=2,group=1,head_dim=16,seq=100:20
// What may have wrapped below 0 was taken for a count that never is: 100 tokens were kept, not 0.
kvc.policy @wraps {
  %score = kvc.norm l2 key : tensor<?x?xf32>
  %three = arith.constant 3000000000 : index
  %first = kvc.broadcast %three : index to tensor<?xi32>
  %some  = kvc.topk %score, %first : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %root  = arith.constant 50000 : index
  %roots = kvc.broadcast %root : index to tensor<?xi32>
  %much  = arith.muli %roots, %roots : tensor<?xi32>
  %more  = kvc.topk %score, %much : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %any   = arith.ori %some, %more : tensor<?x?xi1>
  %few   = kvc.fraction "0.5"
  %count = kvc.allocate uniform : tensor<?xi32>
  %half  = kvc.scale_count %count by(%few) : tensor<?xi32>
  %best  = kvc.topk %score, %half : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %kept  = arith.ori %any, %best : tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
