// random_policies --file infinity-to-a-power.mlir --case kv=1,group=1,head_dim=8,seq=60:20
// Minus infinity to a power that is not whole was NaN; it is infinity.
kvc.policy @random {
  %none  = kvc.fill 0xFF800000 : tensor<?x?xf32>
  %norm  = kvc.norm l2 key : tensor<?x?xf32>
  %power = math.powf %none, %norm : tensor<?x?xf32>
  %one   = kvc.fill 1.0 : tensor<?x?xf32>
  %less  = arith.divf %one, %power : tensor<?x?xf32>
  %score = arith.addf %less, %norm : tensor<?x?xf32>
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
