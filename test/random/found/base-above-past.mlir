// random_policies --file base-above-past.mlir --case kv=2,group=1,head_dim=64,seq=42:22
// A head of a prompt lost what its base had above its past; in a cache of rows the others got it.
kvc.policy @above {
  %window = arith.constant 2 : index
  %score  = kvc.norm l2 key : tensor<?x?xf32>
  %mean   = kvc.reduce mean tokens %score : tensor<?x?xf32> -> tensor<?xf32>
  %one    = arith.constant 1 : index
  %first  = kvc.select_heads highest %mean count(%one) : tensor<?xf32> -> tensor<?xi1>
  %much   = arith.constant 60 : index
  %little = arith.constant 4 : index
  %more   = kvc.broadcast %much : index to tensor<?xi32>
  %less   = kvc.broadcast %little : index to tensor<?xi32>
  %base   = arith.select %first, %more, %less : tensor<?xi1>, tensor<?xi32>
  %guard  = kvc.fraction "0.5"
  %count  = kvc.allocate_heads %score base(%base) safeguard(%guard) : tensor<?x?xf32>, tensor<?xi32>
  %kept   = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
