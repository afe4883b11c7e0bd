// random_policies --file infinite-source.mlir --case kv=1,group=1,head_dim=1,special=infinities,data=548301,seq=100:4
// A source with an infinite value, beside cosines below 0, had similarity 0 in the place of NaN.
kvc.policy @p {
  %c1 = arith.constant 1 : index
  %0 = kvc.attention last(%c1) : tensor<?x?x?xf32>
  %1 = kvc.reduce sum group %0 : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %2 = kvc.reduce mean queries %1 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %3 = kvc.allocate_table base(%c1) shared(%c1) : tensor<?xi32>
  %4 = kvc.topk %2, %3 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %5 = kvc.allocate uniform : tensor<?xi32>
  %6 = kvc.topk %2, %5 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %cst = arith.constant 0.0 : f32
  %7 = kvc.nearest %6 in %4 of value times key at_least(%cst) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
  kvc.keep %4 merge(%7, %2 : tensor<?x?xi32>, tensor<?x?xf32>) share_positions : tensor<?x?xi1>
}
