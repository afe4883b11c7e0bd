// KeyDiff: the keys that differ most from the others.
// Park et al., "KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context LLM
// Inference in Resource-Constrained Environments", 2025.
//
//   a[g]   mean of k[g,t] / ||k[g,t]|| over all tokens of the cache, keys after RoPE
//   S[g,t] -cos(k[g,t], a[g]); a zero vector has cosine 0
//   kept   the B best tokens of each KV head: no window, no sinks
!vectors = tensor<?x?x?xf32>
!scores  = tensor<?x?xf32>
kvc.policy @keydiff {
  %zero   = kvc.fill 0.0 : !scores
  %one    = kvc.fill 1.0 : !scores
  %k      = kvc.vectors key : !vectors
  %norm   = kvc.norm l2 key : !scores
  %real   = arith.cmpf one, %norm, %zero : !scores
  %safe   = arith.select %real, %norm, %one : tensor<?x?xi1>, !scores
  %norms  = kvc.broadcast %safe along channels : !scores to !vectors
  %unit   = arith.divf %k, %norms : !vectors
  %anchor = kvc.reduce mean tokens %unit : !vectors -> !scores
  %a      = kvc.broadcast %anchor : !scores to !vectors
  %ua     = arith.mulf %unit, %a : !vectors
  %aa     = arith.mulf %a, %a : !vectors
  %dot    = kvc.reduce sum channels %ua : !vectors -> !scores
  %square = kvc.reduce sum channels %aa : !vectors -> !scores
  %length = math.sqrt %square : !scores
  %some   = arith.cmpf one, %length, %zero : !scores
  %over   = arith.select %some, %length, %one : tensor<?x?xi1>, !scores
  %cosine = arith.divf %dot, %over : !scores
  %score  = arith.negf %cosine : !scores
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
