// random_policies --file nan-beside-zeros.mlir --case kv=1,group=1,head_dim=1,dtype=f32,keys=random,special=nans,layers=1,data=841933,seq=33:4
// A NaN has no cosine with a zero vector, which has 0 with all others.
kvc.policy @random {
  %0 = kvc.vectors value : tensor<?x?x?xf32>
  %1 = kvc.reduce mean channels %0 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %2 = kvc.allocate uniform : tensor<?xi32>
  %3 = kvc.fraction "0.25"
  %4 = kvc.scale_count %2 by(%3) : tensor<?xi32>
  %5 = kvc.topk %1, %4 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %6 = kvc.allocate uniform : tensor<?xi32>
  %7 = kvc.topk %1, %6 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %cst = arith.constant -5.000000e-01 : f32
  %8 = kvc.nearest %7 in %5 of raw_key at_least(%cst) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
  kvc.keep %5 merge(%8, %1 : tensor<?x?xi32>, tensor<?x?xf32>) : tensor<?x?xi1>
}
