// CriticalKV on HeadKV: budgets by the table, then two selections.
// Feng et al., "Identify Critical KV Cache in LLM Inference from an Output
// Perturbation Perspective", 2025, and HeadKV (2024).
//   S, n[l,g] as headkv; N as criticalkv
//   kept      the alpha * n best tokens by S (rounded down), then by (S + epsilon) * N
// window w; width of the max-pool; beta as headkv; alpha, epsilon as criticalkv
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!counts = tensor<?xi32>
!mask   = tensor<?x?xi1>
kvc.policy @critical_headkv {
  %window  = kvc.param "window" = 32 : index
  %width   = kvc.param "width" = 7 : index
  %beta    = kvc.param "beta" = "1.2" : !kvc.fraction
  %alpha   = kvc.param "alpha" = "0.5" : !kvc.fraction
  %epsilon = kvc.param "epsilon" = 1.0e-4 : f32
  %rows    = kvc.attention last(%window) : !rows
  %mean    = kvc.reduce mean queries %rows : !rows -> !scores
  %group   = kvc.reduce mean group %mean : !scores -> !scores
  %s       = kvc.pool max %group width(%width) : !scores
  %norms   = kvc.projected_norm l1 : !scores
  %n       = kvc.reduce mean group %norms : !scores -> !scores
  %budget  = kvc.budget
  %w       = arith.minui %window, %budget : index
  %b       = arith.subi %budget, %w : index
  %part    = kvc.scale_count %b over(%beta) : index
  %pool    = arith.minui %part, %b : index
  %least   = arith.subi %b, %pool : index
  %count   = kvc.allocate_table base(%least) shared(%pool) : !counts
  %half    = kvc.scale_count %count by(%alpha) : !counts
  %first   = kvc.topk %s, %half : !scores, !counts -> !mask
  %eps     = kvc.broadcast %epsilon : f32 to !scores
  %weight  = arith.addf %s, %eps : !scores
  %product = arith.mulf %weight, %n : !scores
  %forced  = kvc.fill 0x7F800000 : !scores
  %score   = arith.select %first, %forced, %product : !mask, !scores
  %kept    = kvc.topk %score, %count : !scores, !counts -> !mask
  kvc.keep %kept protect_last(%window) : !mask
}
