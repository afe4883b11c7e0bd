// Ada-PyramidKV: the layer's budget as PyramidKV, shared among its heads as Ada-KV.
//
// window     w, observation window, always kept; b = B - w
// width      of the max-pool over tokens
// beta       the last layer's share is b / beta
// safeguard  share of a head's budget that does not adapt
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @ada_pyramidkv {
  %window = kvc.param "window" = 32 : index
  %width  = kvc.param "width" = 7 : index
  %beta   = kvc.param "beta" = "20" : !kvc.fraction
  %guard  = kvc.param "safeguard" = "0.2" : !kvc.fraction
  %rows   = kvc.attention last(%window) : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %group  = kvc.reduce mean group %mean : !scores -> !scores
  %score  = kvc.pool max %group width(%width) : !scores
  %base   = kvc.allocate_layers ratio(%beta) : tensor<?xi32>
  %count  = kvc.allocate_heads %score base(%base) safeguard(%guard) : !scores, tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
