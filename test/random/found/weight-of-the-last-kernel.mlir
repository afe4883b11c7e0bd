// random_policies --file weight-of-the-last-kernel.mlir --case kv=2,group=2,head_dim=16,dtype=f32,keys=repeated,data=7,seq=60:20,seq=9:12
// A weight of merge made beside the list of kept tokens was never stored.
kvc.policy @late_weight {
  %0 = kvc.norm l2 key : tensor<?x?xf32>
  %1 = kvc.allocate uniform : tensor<?xi32>
  %2 = kvc.topk %0, %1 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %true = arith.constant true
  %all = kvc.broadcast %true : i1 to tensor<?x?xi1>
  %tau = arith.constant 0.1 : f32
  %to = kvc.nearest %all in %2 of key at_least(%tau) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
  %own = kvc.position : tensor<?x?xi32>
  %far = arith.subi %to, %own : tensor<?x?xi32>
  %size = math.absi %far : tensor<?x?xi32>
  %weight = arith.sitofp %size : tensor<?x?xi32> to tensor<?x?xf32>
  kvc.keep %2 merge(%to, %weight : tensor<?x?xi32>, tensor<?x?xf32>) : tensor<?x?xi1>
}
