// random_policies --file zero-to-the-power-of-zero.mlir --case kv=1,group=1,head_dim=1,dtype=f32,keys=random,special=none,layers=1,data=756121,seq=2:1
// 0 to the power of 0 was NaN.
kvc.policy @random {
  %0 = kvc.norm  l2  key : tensor<?x?xf32>
  %c2 = arith.constant 2 : index
  %1 = kvc.attention last(%c2) : tensor<?x?x?xf32>
  %2 = math.powf %1, %1 : tensor<?x?x?xf32>
  %3 = kvc.reduce  max  group %2 : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %4 = kvc.reduce  max  queries %3 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %cst = arith.constant 1.000000e+00 : f32
  %5 = kvc.count_mass %4 all_but(%cst) : tensor<?x?xf32> -> tensor<?xi32>
  %6 = kvc.topk %0, %5 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %6 : tensor<?x?xi1>
}
