// CriticalKV on Ada-SnapKV: the heads share by plain scores, then two selections.
// Feng et al., "Identify Critical KV Cache in LLM Inference from an Output
// Perturbation Perspective", 2025, and Ada-KV (2024).
//
//   S, n[g] as adakv; N as criticalkv
//   kept   the alpha * n[g] best tokens by S (rounded down), then by
//          (S + epsilon) * N up to n[g]
//
// window w; width of the max-pool; safeguard as adakv; alpha, epsilon as criticalkv
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!counts = tensor<?xi32>
!mask   = tensor<?x?xi1>
kvc.policy @critical_adakv {
  %window  = kvc.param "window" = 32 : index
  %width   = kvc.param "width" = 7 : index
  %guard   = kvc.param "safeguard" = "0.2" : !kvc.fraction
  %alpha   = kvc.param "alpha" = "0.5" : !kvc.fraction
  %epsilon = kvc.param "epsilon" = 1.0e-4 : f32
  %rows    = kvc.attention last(%window) : !rows
  %mean    = kvc.reduce mean queries %rows : !rows -> !scores
  %group   = kvc.reduce mean group %mean : !scores -> !scores
  %s       = kvc.pool max %group width(%width) : !scores
  %norms   = kvc.projected_norm l1 : !scores
  %n       = kvc.reduce mean group %norms : !scores -> !scores
  %base    = kvc.allocate uniform : !counts
  %count   = kvc.allocate_heads %s base(%base) safeguard(%guard) : !scores, !counts
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
