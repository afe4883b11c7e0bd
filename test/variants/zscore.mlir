// Held-out: sums of squared weights, a z-score per query head over tokens, its
// tanh, then the group mean. Where all keys are equal its scores are rounding
// noise, which no two implementations share:
// matrix: no equal keys
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!heads  = tensor<?xf32>
kvc.policy @zscore {
  %window = kvc.param "window" = 16 : index
  %rows   = kvc.attention last(%window) : !rows
  %square = arith.mulf %rows, %rows : !rows
  %sum    = kvc.reduce sum queries %square : !rows -> !scores
  %mean   = kvc.reduce mean tokens %sum : !scores -> !heads
  %std    = kvc.reduce std tokens %sum : !scores -> !heads
  %m      = kvc.broadcast %mean : !heads to !scores
  %s      = kvc.broadcast %std : !heads to !scores
  %off    = arith.subf %sum, %m : !scores
  %eps    = arith.constant 1.0e-4 : f32
  %e      = kvc.broadcast %eps : f32 to !scores
  %spread = arith.addf %s, %e : !scores
  %z      = arith.divf %off, %spread : !scores
  %flat   = math.tanh %z : !scores
  %score  = kvc.reduce mean group %flat : !scores -> !scores
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
