// Held-out: segments of two lengths, of scores per query head and of vectors, one with
// an origin known at launch; the next segment of a value that a segment gave.
!v = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @segments {
  %w     = arith.constant 8 : index
  %short = arith.constant 7 : index
  %long  = arith.constant 40 : index
  %none  = arith.constant 0 : index
  %T     = kvc.length
  %from  = arith.remui %T, %long : index
  %a     = kvc.attention last(%w) : !v
  %m     = kvc.reduce mean queries %a : !v -> !s
  %soft  = kvc.segment softmax %m length(%long) from(%from) : !s
  %mine  = kvc.segment mean %m length(%long) from(%from) : !s
  %theirs = kvc.segment sum next %soft length(%long) from(%from) : !s
  %most  = kvc.segment max %m length(%short) from(%none) : !s
  %k     = kvc.vectors key : !v
  %low   = kvc.segment min %k length(%long) from(%from) : !v
  %far   = arith.subf %k, %low : !v
  %unit  = kvc.segment minmax %far length(%long) from(%from) : !v
  %size  = kvc.reduce mean channels %unit : !v -> !s
  %x     = arith.addf %soft, %theirs : !s
  %y     = arith.mulf %mine, %most : !s
  %z     = arith.addf %x, %y : !s
  %h     = kvc.reduce mean group %z : !s -> !s
  %p     = arith.mulf %h, %size : !s
  %rank  = kvc.segment rank %p length(%short) from(%none) : !s
  %flat  = kvc.segment minmax %p length(%long) from(%none) : !s
  %score = arith.addf %rank, %flat : !s
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%w) : tensor<?x?xi1>
}
