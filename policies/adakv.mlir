// Ada-SnapKV: heads whose scores are spread keep more.
// Feng et al., "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation
// for Efficient LLM Inference", 2024.
//
//   S      as SnapKV
//   f[g]   KV head g's entries among the Hkv * b largest of all S
//   n[g]   (1 - s) * f[g] + s * b, largest remainder: the layer keeps Hkv * b
//          (the authors' code; the paper's algorithm box exchanges the weights)
//
// window     w, observation window, always kept; b = B - w
// width      of the max-pool over tokens
// safeguard  s
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @adakv {
  %window = kvc.param "window" = 32 : index
  %width  = kvc.param "width" = 7 : index
  %guard  = kvc.param "safeguard" = "0.2" : !kvc.fraction
  %rows   = kvc.attention last(%window) : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %group  = kvc.reduce mean group %mean : !scores -> !scores
  %score  = kvc.pool max %group width(%width) : !scores
  %base   = kvc.allocate uniform : tensor<?xi32>
  %count  = kvc.allocate_heads %score base(%base) safeguard(%guard) : !scores, tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
