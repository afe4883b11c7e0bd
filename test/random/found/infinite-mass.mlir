// random_policies --file infinite-mass.mlir --case kv=2,group=1,head_dim=8,special=infinities,seq=100:30
// A sum of scores that are infinite both ways is NaN, which became an integer.
!r = tensor<?x?x?xf32>
kvc.policy @p {
  %v = kvc.vectors key : tensor<?x?x?xf32>
  %f = kvc.reduce sum channels %v : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %n = arith.constant 5.0 : f32
  %c = kvc.count_mass %f all_but(%n) : tensor<?x?xf32> -> tensor<?xi32>
  %m = kvc.topk %f, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
