// Ada-SnapKV with its authors' rounding: each head by itself, half to even, in fp32,
// so the total may drift from Hkv * b by a few.
//
//   S, f[g] as adakv
//   n[g]    round((1 - s) * f[g] + floor(s * b))
//
// window    w, observation window, always kept; b = B - w
// width     of the max-pool over tokens
// safeguard s, and adaptive, 1 - s
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!counts = tensor<?xi32>
!heads  = tensor<?xf32>
kvc.policy @adakv_author {
  %window   = kvc.param "window" = 32 : index
  %width    = kvc.param "width" = 7 : index
  %guard    = kvc.param "safeguard" = "0.2" : !kvc.fraction
  %adaptive = kvc.param "adaptive" = 0.8 : f32
  %none     = kvc.fraction "0"
  %rows     = kvc.attention last(%window) : !rows
  %mean     = kvc.reduce mean queries %rows : !rows -> !scores
  %group    = kvc.reduce mean group %mean : !scores -> !scores
  %score    = kvc.pool max %group width(%width) : !scores
  %base     = kvc.allocate uniform : !counts
  %f        = kvc.allocate_heads %score base(%base) safeguard(%none) : !scores, !counts
  %floor    = kvc.scale_count %base by(%guard) : !counts
  %real     = arith.uitofp %f : !counts to !heads
  %share    = kvc.broadcast %adaptive : f32 to !heads
  %blend    = arith.mulf %real, %share : !heads
  %least    = arith.uitofp %floor : !counts to !heads
  %sum      = arith.addf %blend, %least : !heads
  %round    = math.roundeven %sum : !heads
  %count    = arith.fptoui %round : !heads to !counts
  %kept     = kvc.topk %score, %count : !scores, !counts -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
