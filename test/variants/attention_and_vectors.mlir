// Held-out: attention rows and channels of the same keys in one columns kernel.
!v = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @attention_and_vectors {
  %w     = kvc.param "window" = 12 : index
  %a     = kvc.attention last(%w) : !v
  %m     = kvc.reduce max queries %a : !v -> !s
  %g     = kvc.reduce mean group %m : !s -> !s
  %k     = kvc.vectors key : !v
  %most  = kvc.reduce max channels %k : !v -> !s
  %score = arith.mulf %g, %most : !s
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%w) : tensor<?x?xi1>
}
