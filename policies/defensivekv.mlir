// DefensiveKV: the worst case over queries, not the mean, and never below a floor.
// Feng et al., "Taming the Fragility of KV Cache Eviction in LLM Inference", 2025.
//
//   R[g,t]  max over the window and the group of every row's mean-pool
//   S[g,t]  max(R[g,t], mean over t of R[g,t]) * N[g,t] / sum over g of N[g,t],
//           N as criticalkv
//   kept    the window; per head the tokens that hold all but `rest` of the mean attention
//           (at most b = B - w), and of all heads the best by S up to Hkv * b
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!counts = tensor<?xi32>
kvc.policy @defensivekv {
  %window = kvc.param "window" = 32 : index
  %width  = kvc.param "width" = 5 : index
  %rest   = kvc.param "rest" = 0.1 : f32
  %none   = kvc.fraction "0"
  %rows   = kvc.attention last(%window) : !rows
  %pooled = kvc.pool mean %rows width(%width) : !rows
  %worst  = kvc.reduce max queries %pooled : !rows -> !scores
  %r      = kvc.reduce max group %worst : !scores -> !scores
  %mean   = kvc.reduce mean tokens %r : !scores -> tensor<?xf32>
  %floor  = kvc.broadcast %mean : tensor<?xf32> to !scores
  %safe   = arith.maximumf %r, %floor : !scores
  %norms  = kvc.projected_norm l1 : !scores
  %n      = kvc.reduce mean group %norms : !scores -> !scores
  %total  = kvc.reduce sum heads %n : !scores -> !scores
  %share  = arith.divf %n, %total : !scores
  %s      = arith.mulf %safe, %share : !scores
  %by_w   = kvc.reduce mean queries %rows : !rows -> !scores
  %weight = kvc.reduce mean group %by_w : !scores -> !scores
  %enough = kvc.count_mass %weight all_but(%rest) : !scores -> !counts
  %b      = kvc.allocate uniform : !counts
  %few    = arith.minui %enough, %b : !counts
  %first  = kvc.topk %weight, %few : !scores, !counts -> tensor<?x?xi1>
  %forced = kvc.fill 0x7F800000 : !scores
  %score  = arith.select %first, %forced, %s : tensor<?x?xi1>, !scores
  %count  = kvc.allocate_heads %score base(%b) safeguard(%none) : !scores, !counts
  %kept   = kvc.topk %score, %count : !scores, !counts -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
