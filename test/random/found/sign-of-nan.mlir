// random_policies --file sign-of-nan.mlir --case kv=2,group=1,head_dim=16,seq=96:34
// The logarithm of a negative number is NaN, which had the one sign here and the other there.
kvc.policy @p {
  %keys  = kvc.vectors raw_key : tensor<?x?x?xf32>
  %log   = math.log %keys : tensor<?x?x?xf32>
  %moved = math.copysign %keys, %log : tensor<?x?x?xf32>
  %score = kvc.reduce std channels %moved : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
