// PyramidKV: lower layers spread their attention and get more.
// Cai et al., "PyramidKV: Dynamic KV Cache Compression based on Pyramidal
// Information Funneling", 2024.
//
//   S      as SnapKV
//   n[l]   on a straight line over the layers: b / beta in the last, with b on average;
//          the first never above T - w. Largest remainder: all layers keep L * b
//          (the paper's code rounds the step down and drifts: pyramidkv-author)
//
// window  w, observation window, always kept; b = B - w
// width   of the max-pool over tokens
// beta    the last layer's share is b / beta
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @pyramidkv {
  %window = kvc.param "window" = 32 : index
  %width  = kvc.param "width" = 7 : index
  %beta   = kvc.param "beta" = "20" : !kvc.fraction
  %rows   = kvc.attention last(%window) : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %group  = kvc.reduce mean group %mean : !scores -> !scores
  %score  = kvc.pool max %group width(%width) : !scores
  %count  = kvc.allocate_layers ratio(%beta) : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
