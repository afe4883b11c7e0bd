// random_policies --file least-carried-of-heads.mlir --case kv=2,group=1,head_dim=1,dtype=f32,keys=random,special=none,layers=1,cache=paged,data=379090,seq=2:1,seq=4:1
// Of a row's number the same head's was taken as often as there are heads.
kvc.policy @random {
  %0 = kvc.row_state "s0" : tensor<?x?xf32>
  %1 = kvc.row_state "s1" : tensor<?x?xf32>
  %2 = kvc.reduce min heads %0 : tensor<?x?xf32> -> tensor<?x?xf32>
  %3 = arith.cmpf ogt, %2, %1 : tensor<?x?xf32>
  kvc.keep %3 carry("s0" = %0 : tensor<?x?xf32>, "s1" = %0 : tensor<?x?xf32>) : tensor<?x?xi1>
}
