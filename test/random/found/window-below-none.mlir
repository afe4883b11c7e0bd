// random_policies --file window-below-none.mlir --case kv=2,group=1,head_dim=32,seq=63:48,seq=129:124,seq=2:1
// The runtime refused the manifest: a window below 0 protects nothing, as one that is computed.
kvc.policy @random {
  %none  = arith.constant -5 : index
  %norm  = kvc.norm l2 key : tensor<?x?xf32>
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %norm, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%none) : tensor<?x?xi1>
}
