// random_policies --file channels-in-channels-odd.mlir --case kv=2,group=1,head_dim=9,seq=171:139
// Without vectors of channels it compiled, and was wrong.
kvc.policy @random {
  %keys  = kvc.vectors key : tensor<?x?x?xf32>
  %sum   = kvc.reduce sum channels %keys : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %wide  = kvc.broadcast %sum along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %score = kvc.reduce max channels %wide : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
