// SnapKV as kvpress computes it.
//
//   A      softmax rows of the last w queries, rounded to the model's type
//   S[g,t] mean over the group of  (sum over |u - t| <= width/2 of P[h,u]) / width,
//          P[h,u] = mean over w of A[h,i,u]: the padding counts
//   kept   the B - w best tokens of each KV head, and the window
//
// window  w, observation window, always kept
// width   of the average pool over tokens
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @snapkv_kvpress {
  %window = kvc.param "window" = 64 : index
  %width  = kvc.param "width" = 5 : index
  %rows   = kvc.attention last(%window) rounded : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %pooled = kvc.pool mean %mean width(%width) count_padding : !scores
  %score  = kvc.reduce mean group %pooled : !scores -> !scores
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
