// Held-out: two windows weighted and added, the larger of a group, times the key
// norm, mean-pooled.
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @two_windows {
  %long   = kvc.param "long" = 32 : index
  %short  = kvc.param "short" = 8 : index
  %weight = kvc.param "weight" = 0.25 : f32
  %width  = arith.constant 9 : index
  %a      = kvc.attention last(%long) : !rows
  %b      = kvc.attention last(%short) : !rows
  %sa     = kvc.reduce mean queries %a : !rows -> !scores
  %sb     = kvc.reduce max queries %b : !rows -> !scores
  %w      = kvc.broadcast %weight : f32 to !scores
  %wb     = arith.mulf %sb, %w : !scores
  %sum    = arith.addf %sa, %wb : !scores
  %group  = kvc.reduce max group %sum : !scores -> !scores
  %norm   = kvc.norm l2 key : !scores
  %times  = arith.mulf %group, %norm : !scores
  %score  = kvc.pool mean %times width(%width) : !scores
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%long) : tensor<?x?xi1>
}
