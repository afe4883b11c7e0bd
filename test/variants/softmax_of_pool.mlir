// Held-out: pooled weights, their share by softmax over tokens, and the sum of its
// exponentials once more, in a spans kernel; key norms relative to their mean, whose parts
// a columns kernel has.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!h = tensor<?xf32>
kvc.policy @softmax_of_pool {
  %w     = kvc.param "window" = 8 : index
  %width = kvc.param "width" = 5 : index
  %ten   = kvc.fill 10.0 : !s
  %a     = kvc.attention last(%w) : !r
  %mean  = kvc.reduce mean queries %a : !r -> !s
  %group = kvc.reduce max group %mean : !s -> !s
  %pool  = kvc.pool max %group width(%width) : !s
  %x     = arith.mulf %pool, %ten : !s
  %most  = kvc.reduce max tokens %x : !s -> !h
  %mb    = kvc.broadcast %most : !h to !s
  %below = arith.subf %x, %mb : !s
  %e     = math.exp %below : !s
  %sum   = kvc.reduce sum tokens %e : !s -> !h
  %again = kvc.reduce sum tokens %e : !s -> !h
  %total = arith.addf %sum, %again : !h
  %sb    = kvc.broadcast %total : !h to !s
  %share = arith.divf %e, %sb : !s
  %k     = kvc.norm l2 key : !s
  %usual = kvc.reduce mean tokens %k : !s -> !h
  %ub    = kvc.broadcast %usual : !h to !s
  %rel   = arith.divf %k, %ub : !s
  %score = arith.mulf %share, %rel : !s
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%w) : tensor<?x?xi1>
}
