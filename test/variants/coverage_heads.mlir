// Held-out: the focus on tokens that earlier layers dropped, with heads that share
// their budgets by it; half the budget is safe.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
kvc.policy @coverage_heads {
  %w     = kvc.param "window" = 24 : index
  %few   = arith.constant 8 : index
  %width = arith.constant 5 : index
  %guard = kvc.param "safeguard" = "0.5" : !kvc.fraction
  %long  = kvc.attention last(%w) : !r
  %short = kvc.attention last(%few) : !r
  %mean  = kvc.reduce mean queries %long : !r -> !s
  %group = kvc.reduce mean group %mean : !s -> !s
  %p     = kvc.pool max %group width(%width) : !s
  %most  = kvc.reduce max heads %short : !r -> !r
  %i     = kvc.reduce mean queries %most : !r -> !s
  %n     = kvc.kept_layers share : !s
  %one   = kvc.fill 1.0 : !s
  %fresh = arith.subf %one, %n : !s
  %focus = arith.mulf %i, %fresh : !s
  %score = arith.addf %p, %focus : !s
  %base  = kvc.allocate uniform : !c
  %count = kvc.allocate_heads %score base(%base) safeguard(%guard) : !s, !c
  %kept  = kvc.topk %score, %count : !s, !c -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%w) : tensor<?x?xi1>
}
