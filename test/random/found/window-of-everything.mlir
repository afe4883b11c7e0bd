// random_policies --file window-of-everything.mlir --case kv=2,group=1,head_dim=32,seq=63:48,seq=129:124,seq=2:1
// The same, above every length: all tokens are protected.
kvc.policy @random {
  %all  = arith.constant 1099511627776 : index
  %norm  = kvc.norm l2 key : tensor<?x?xf32>
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %norm, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%all) : tensor<?x?xi1>
}
