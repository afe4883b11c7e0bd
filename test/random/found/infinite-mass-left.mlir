// random_policies --file infinite-mass-left.mlir --case kv=2,group=1,head_dim=8,special=infinities,seq=100:30
// Everything may be left out, infinite scores as well: inf - inf became the number of tokens.
!r = tensor<?x?x?xf32>
kvc.policy @p {
  %v = kvc.vectors key : tensor<?x?x?xf32>
  %f = kvc.reduce max channels %v : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %n = arith.constant 0x7F800000 : f32
  %c = kvc.count_mass %f all_but(%n) : tensor<?x?xf32> -> tensor<?xi32>
  %m = kvc.topk %f, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
