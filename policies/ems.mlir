// EMS: evict, then merge. S[g,t]: mean-pool of max(s_glo / T, s_loc), sums over all queries and the mean over
// the last w. The window and the B - w best stay; of the next (gamma - 1) * B each joins that of the largest cos(k)
// * cos(v), before RoPE, from tau on, but none of the `closed` best; means by s_loc. Then: merged/ems_decode.mlir
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!mask   = tensor<?x?xi1>
kvc.policy @ems {
  %w       = kvc.param "window" = 32 : index
  %width   = kvc.param "width" = 7 : index
  %gamma   = kvc.param "gamma" = "4" : !kvc.fraction
  %tau     = kvc.param "tau" = 0.6 : f32
  %closed  = kvc.param "closed" = 0 : index
  %T       = kvc.length
  %few     = kvc.attention last(%w) : !rows
  %all     = kvc.attention last(%T) : !rows
  %few_h   = kvc.reduce mean queries %few : !rows -> !scores
  %all_h   = kvc.reduce mean queries %all : !rows -> !scores
  %local   = kvc.reduce mean group %few_h : !scores -> !scores
  %global  = kvc.reduce mean group %all_h : !scores -> !scores
  %ws      = kvc.broadcast %w : index to !scores
  %past    = arith.mulf %local, %ws : !scores
  %Ts      = kvc.broadcast %T : index to !scores
  %glo     = arith.mulf %global, %Ts : !scores
  %either  = arith.maximumf %global, %local : !scores
  %score   = kvc.pool mean %either width(%width) : !scores
  %b       = kvc.allocate uniform : tensor<?xi32>
  %centres = kvc.topk %score, %b : !scores, tensor<?xi32> -> !mask
  %B       = kvc.budget
  %gB      = kvc.scale_count %B by(%gamma) : index
  %merged  = arith.subi %gB, %B : index
  %m       = kvc.broadcast %merged : index to tensor<?xi32>
  %both    = arith.addi %b, %m : tensor<?xi32>
  %used    = kvc.topk %score, %both : !scores, tensor<?xi32> -> !mask
  %sources = arith.xori %used, %centres : !mask
  %p       = kvc.broadcast %closed : index to tensor<?xi32>
  %best    = kvc.topk %score, %p : !scores, tensor<?xi32> -> !mask
  %open    = arith.cmpi ult, %best, %centres : !mask
  %dest    = kvc.nearest %sources in %open of raw_key times value at_least(%tau) : !mask, !mask -> tensor<?x?xi32>
  kvc.keep %centres merge(%dest, %local : tensor<?x?xi32>, !scores) protect_last(%w) carry("glo" = %glo : !scores, "past" = %past : !scores) : !mask
}
