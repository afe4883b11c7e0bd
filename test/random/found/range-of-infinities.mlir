// random_policies --file range-of-infinities.mlir --case kv=2,group=1,head_dim=16,seq=96:41
// inf - inf is no range of 0: the reference, which compared the two, divided by 1.
kvc.policy @p {
  %norm   = kvc.norm l1 key : tensor<?x?xf32>
  %length = arith.constant 64 : index
  %from   = arith.constant 2 : index
  %none   = kvc.segment min next %norm length(%length) from(%from) : tensor<?x?xf32>
  %score  = kvc.segment minmax next %none length(%length) from(%from) : tensor<?x?xf32>
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
