// random_policies --file wide-index.mlir --case kv=2,group=1,head_dim=8,seq=100:50
// What is below 0 is divided as a number of 64 bits; the reference had 53 of them.
kvc.policy @random {
  %budget = kvc.budget
  %more   = arith.constant 1000 : index
  %ten    = arith.constant 10 : index
  %below  = arith.subi %budget, %more : index
  %tenth  = arith.divui %below, %ten : index
  %digit  = arith.remui %tenth, %ten : index
  %score  = kvc.norm l2 key : tensor<?x?xf32>
  %count  = kvc.broadcast %digit : index to tensor<?xi32>
  %kept   = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
