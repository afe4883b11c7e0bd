// random_policies --file last-row-of-heads.mlir --case kv=2,group=1,head_dim=1,dtype=f32,keys=random,special=none,layers=1,cache=ragged,data=1,seq=4:1,seq=19:3
// A token is another row in each head, which only a walk over all heads knows.
kvc.policy @random {
  %p = kvc.position row : tensor<?x?xi32>
  %0 = arith.sitofp %p : tensor<?x?xi32> to tensor<?x?xf32>
  %2 = kvc.reduce max heads %0 : tensor<?x?xf32> -> tensor<?x?xf32>
  %3 = arith.cmpf ogt, %2, %0 : tensor<?x?xf32>
  kvc.keep %3 : tensor<?x?xi1>
}
