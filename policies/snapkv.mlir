// SnapKV: the prompt's last queries say which tokens matter.
// Li et al., "SnapKV: LLM Knows What You are Looking for Before Generation", 2024.
//
//   A      softmax rows of the last w queries, fp32
//   S[g,t] max over |u - t| <= width/2 of  mean over the group of  mean over w of  A[h,i,u]
//   kept   the B - w best tokens of each KV head, and the window
//
// window  w, observation window, always kept
// width   of the max-pool over tokens
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @snapkv {
  %window = kvc.param "window" = 32 : index
  %width  = kvc.param "width" = 7 : index
  %rows   = kvc.attention last(%window) : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %group  = kvc.reduce mean group %mean : !scores -> !scores
  %score  = kvc.pool max %group width(%width) : !scores
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
