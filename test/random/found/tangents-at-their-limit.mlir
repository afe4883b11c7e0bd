// random_policies --file tangents-at-their-limit.mlir --case kv=1,group=1,head_dim=1,dtype=f32,keys=random,special=none,layers=1,data=640198,seq=80:52
// Kernels bound the argument of a tangent: what is above it is a tie.
kvc.policy @random {
  %0 = kvc.position row : tensor<?x?xi32>
  %1 = arith.sitofp %0 : tensor<?x?xi32> to tensor<?x?xf32>
  %2 = kvc.norm  l2  raw_key : tensor<?x?xf32>
  %3 = arith.addf %1, %2 : tensor<?x?xf32>
  %4 = kvc.allocate uniform : tensor<?xi32>
  %5 = kvc.topk %3, %4 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %6 = math.tanh %3 : tensor<?x?xf32>
  %7 = kvc.topk %6, %4 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %8 = arith.ori %5, %7 : tensor<?x?xi1>
  kvc.keep %8  : tensor<?x?xi1>
}
