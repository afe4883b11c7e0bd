// random_policies --file channels-in-channels.mlir --case kv=2,group=1,head_dim=64,seq=171:139
// A sum over channels in which another runs lent it its own channel.
kvc.policy @random {
  %keys  = kvc.vectors key : tensor<?x?x?xf32>
  %std   = kvc.reduce std channels %keys : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %wide  = kvc.broadcast %std along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %off   = arith.mulf %wide, %keys : tensor<?x?x?xf32>
  %score = kvc.reduce sum channels %off : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
