// Ada-SnapKV to the letter of its paper's Algorithm 2.
// Feng et al., "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation
// for Efficient LLM Inference", 2024.
//
//   S[g,t] mean over the group of  mean over w of  max over |u - t| <= width/2 of
//          A[h,i,u]: every row is pooled by itself
//   f[g]   KV head g's entries among the Hkv * b largest of all S
//   n[g]   s * f[g] + (1 - s) * b: the box's weights, largest remainder
//
// window  w, observation window, always kept; b = B - w
// width   of the max-pool over tokens
// uniform 1 - s, the uniform part
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @adakv_paper {
  %window  = kvc.param "window" = 32 : index
  %width   = kvc.param "width" = 7 : index
  %uniform = kvc.param "uniform" = "0.8" : !kvc.fraction
  %rows    = kvc.attention last(%window) : !rows
  %pooled  = kvc.pool max %rows width(%width) : !rows
  %mean    = kvc.reduce mean queries %pooled : !rows -> !scores
  %score   = kvc.reduce mean group %mean : !scores -> !scores
  %base    = kvc.allocate uniform : tensor<?xi32>
  %count   = kvc.allocate_heads %score base(%base) safeguard(%uniform) : !scores, tensor<?xi32>
  %kept    = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
