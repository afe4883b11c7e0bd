// random_policies --file no-new-queries-and-a-number.mlir --case kv=1,group=1,head_dim=1,dtype=f32,keys=random,special=none,layers=1,data=509362,seq=2:1,seq=2:1
// The reference took a number for the one row of a window in which there was none.
kvc.policy @random {
  %0 = kvc.row_state "s0" : tensor<?x?xf32>
  %1 = kvc.new_queries
  %2 = kvc.attention last(%1) : tensor<?x?x?xf32>
  %3 = kvc.reduce  min  group %2 : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %4 = kvc.fill 2.500000e-01 : tensor<?x?x?xf32>
  %5 = arith.addf %3, %4 : tensor<?x?x?xf32>
  %6 = kvc.reduce  sum  queries %5 : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %7 = kvc.allocate uniform : tensor<?xi32>
  %8 = kvc.topk %6, %7 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %8 carry("s0" = %0 : tensor<?x?xf32>) : tensor<?x?xi1>
}
