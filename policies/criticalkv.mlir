// CriticalKV on SnapKV: what a token moves is its weight times its projected value.
// Feng et al., "Identify Critical KV Cache in LLM Inference from an Output
// Perturbation Perspective", 2025, Algorithm 1.
//
//   S[g,t] as snapkv
//   N[g,t] mean over the query heads h of g of ||V[g,t,:] Wo_h||_1
//   kept   the alpha * b best tokens by S (rounded down), then by (S + epsilon) * N
//          up to b = B - w; the window is outside both
//
// window w; width of the max-pool
// alpha   share of the first selection (the text's and experiments' value)
// epsilon keeps tokens of no weight comparable
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!counts = tensor<?xi32>
!mask   = tensor<?x?xi1>
kvc.policy @criticalkv {
  %window  = kvc.param "window" = 32 : index
  %width   = kvc.param "width" = 7 : index
  %alpha   = kvc.param "alpha" = "0.5" : !kvc.fraction
  %epsilon = kvc.param "epsilon" = 1.0e-4 : f32
  %rows    = kvc.attention last(%window) : !rows
  %mean    = kvc.reduce mean queries %rows : !rows -> !scores
  %group   = kvc.reduce mean group %mean : !scores -> !scores
  %s       = kvc.pool max %group width(%width) : !scores
  %norms   = kvc.projected_norm l1 : !scores
  %n       = kvc.reduce mean group %norms : !scores -> !scores
  %b       = kvc.allocate uniform : !counts
  %half    = kvc.scale_count %b by(%alpha) : !counts
  %first   = kvc.topk %s, %half : !scores, !counts -> !mask
  %eps     = kvc.broadcast %epsilon : f32 to !scores
  %weight  = arith.addf %s, %eps : !scores
  %product = arith.mulf %weight, %n : !scores
  %forced  = kvc.fill 0x7F800000 : !scores
  %score   = arith.select %first, %forced, %product : !mask, !scores
  %kept    = kvc.topk %score, %b : !scores, !counts -> !mask
  kvc.keep %kept protect_last(%window) : !mask
}
