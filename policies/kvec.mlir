// K-VEC: P[g,t] mean over the last O queries and the group; the delta heads with the
// lowest deviation of P get the mean over O' queries. focus[t]: mean over O queries of
// the largest A of any head, times 1 - n[t] / (l + 1), n[t] the earlier layers in which
// some head kept t. Kept: the last O' tokens; the beta * b best by pooled P (rounded
// down), then by pooled P + lambda * focus up to b = B - O'.
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @kvec {
  %O      = kvc.param "short" = 16 : index
  %O2     = kvc.param "window" = 32 : index
  %width  = kvc.param "width" = 7 : index
  %delta  = kvc.param "delta" = 3 : index
  %lambda = kvc.param "lambda" = 1.0 : f32
  %beta   = kvc.param "beta" = "0.25" : !kvc.fraction
  %few    = kvc.attention last(%O) : !rows
  %many   = kvc.attention last(%O2) : !rows
  %few_h  = kvc.reduce mean queries %few : !rows -> !scores
  %many_h = kvc.reduce mean queries %many : !rows -> !scores
  %short  = kvc.reduce mean group %few_h : !scores -> !scores
  %long   = kvc.reduce mean group %many_h : !scores -> !scores
  %sigma  = kvc.reduce std tokens %short : !scores -> tensor<?xf32>
  %blurry = kvc.select_heads lowest %sigma count(%delta) : tensor<?xf32> -> tensor<?x?xi1>
  %p      = arith.select %blurry, %long, %short : tensor<?x?xi1>, !scores
  %pooled = kvc.pool max %p width(%width) : !scores
  %most   = kvc.reduce max heads %few : !rows -> !rows
  %i      = kvc.reduce mean queries %most : !rows -> !scores
  %cover  = kvc.kept_layers share : !scores
  %one    = kvc.fill 1.0 : !scores
  %fresh  = arith.subf %one, %cover : !scores
  %focus  = arith.mulf %i, %fresh : !scores
  %l      = kvc.broadcast %lambda : f32 to !scores
  %sum    = math.fma %focus, %l, %pooled : !scores
  %b      = kvc.allocate uniform : tensor<?xi32>
  %sure   = kvc.scale_count %b by(%beta) : tensor<?xi32>
  %first  = kvc.topk %pooled, %sure : !scores, tensor<?xi32> -> tensor<?x?xi1>
  %forced = kvc.fill 0x7F800000 : !scores
  %score  = arith.select %first, %forced, %sum : tensor<?x?xi1>, !scores
  %kept   = kvc.topk %score, %b : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%O2) : tensor<?x?xi1>
}
