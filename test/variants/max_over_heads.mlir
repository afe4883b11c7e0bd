// Held-out: the mean over 13 queries of the largest weight of any head, added to
// a pooled window mean. A reduction over all heads of rows, and a second window.
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @max_over_heads {
  %window = kvc.param "window" = 32 : index
  %few    = arith.constant 13 : index
  %width  = arith.constant 7 : index
  %rows   = kvc.attention last(%window) : !rows
  %last   = kvc.attention last(%few) : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %group  = kvc.reduce mean group %mean : !scores -> !scores
  %most   = kvc.reduce max heads %last : !rows -> !rows
  %focus  = kvc.reduce mean queries %most : !rows -> !scores
  %pooled = kvc.pool max %group width(%width) : !scores
  %score  = arith.addf %pooled, %focus : !scores
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
