// random_policies --file largest-of-ranges.mlir --case kv=1,group=1,head_dim=8,dtype=f32,keys=random,special=none,layers=1,data=799356,seq=4:1
// Of each channel the largest is 1, or as near as the inverse of its range.
kvc.policy @random {
  %0 = kvc.vectors raw_key : tensor<?x?x?xf32>
  %c5 = arith.constant 5 : index
  %c0 = arith.constant 0 : index
  %1 = kvc.segment minmax %0 length(%c5) from(%c0) : tensor<?x?x?xf32>
  %2 = kvc.reduce max channels %1 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %3 = kvc.allocate uniform : tensor<?xi32>
  %4 = kvc.topk %2, %3 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %4 : tensor<?x?xi1>
}
