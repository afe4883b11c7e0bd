// random_policies --file bounds-beside-all-heads.mlir --case kv=2,group=2,head_dim=1,dtype=f32,keys=random,special=none,layers=1,cache=ragged,data=508674,seq=16:1
// A lane had the bound of its column's row in the place of its position's.
kvc.policy @bounded {
  %0 = kvc.norm l2 key : tensor<?x?xf32>
  %1 = kvc.reduce min heads %0 : tensor<?x?xf32> -> tensor<?x?xf32>
  %2 = kvc.projected_norm l1 : tensor<?x?xf32>
  %3 = kvc.reduce mean group %2 : tensor<?x?xf32> -> tensor<?x?xf32>
  %4 = arith.mulf %1, %3 : tensor<?x?xf32>
  %5 = kvc.allocate uniform : tensor<?xi32>
  %6 = kvc.topk %4, %5 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %6 : tensor<?x?xi1>
}
