// random_policies --file tangents-at-their-bound.mlir --case kv=1,group=1,head_dim=32,dtype=f32,keys=random,special=none,layers=1,data=138091,seq=16:2
// The judge knew no run where a tangent's bound is less than 1, and a deviation of equal ones is not 0.
kvc.policy @random {
  %c1 = arith.constant 1 : index
  %0 = kvc.allocate uniform : tensor<?xi32>
  %1 = kvc.norm  l1  key : tensor<?x?xf32>
  %2 = math.tanh %1 : tensor<?x?xf32>
  %3 = kvc.reduce  std  tokens %2 : tensor<?x?xf32> -> tensor<?xf32>
  %4 = kvc.broadcast %3 : tensor<?xf32> to tensor<?x?xf32>
  %5 = kvc.topk %4, %0 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %5 protect_last(%c1)  : tensor<?x?xi1>
}
