// random_policies --file no-rows-in-front.mlir --case kv=1,group=1,head_dim=96,dtype=f16,keys=random,special=none,layers=1,cache=ragged,data=56661,seq=45:5,seq=73:3
// The first sequence has no rows, and so no positions: those of the others were left out.
kvc.policy @p {
  %keys = kvc.vectors key : tensor<?x?x?xf32>
  %score = kvc.reduce sum channels %keys : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %count = kvc.allocate uniform : tensor<?xi32>
  %mask  = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %mask : tensor<?x?xi1>
}
