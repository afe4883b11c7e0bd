// Held-out: the larger of the global and the local score, heads that share their
// budgets by it, and the rest merged by keys after RoPE alone into open centres.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
kvc.policy @merge_by_heads {
  %w       = kvc.param "window" = 32 : index
  %width   = arith.constant 7 : index
  %tau     = kvc.param "tau" = 0.2 : f32
  %guard   = kvc.param "safeguard" = "0.2" : !kvc.fraction
  %half    = kvc.fraction "0.5"
  %T       = kvc.length
  %few     = kvc.attention last(%w) : !r
  %all     = kvc.attention last(%T) : !r
  %few_h   = kvc.reduce mean queries %few : !r -> !s
  %all_h   = kvc.reduce mean queries %all : !r -> !s
  %local   = kvc.reduce mean group %few_h : !s -> !s
  %global  = kvc.reduce mean group %all_h : !s -> !s
  %either  = arith.maximumf %global, %local : !s
  %score   = kvc.pool mean %either width(%width) : !s
  %b       = kvc.allocate uniform : !c
  %count   = kvc.allocate_heads %score base(%b) safeguard(%guard) : !s, !c
  %centres = kvc.topk %score, %count : !s, !c -> !m
  %some    = kvc.scale_count %count by(%half) : !c
  %closed  = kvc.topk %score, %some : !s, !c -> !m
  %open    = arith.cmpi ult, %closed, %centres : !m
  %both    = arith.addi %count, %count : !c
  %used    = kvc.topk %score, %both : !s, !c -> !m
  %sources = arith.xori %used, %centres : !m
  %dest    = kvc.nearest %sources in %open of key at_least(%tau) : !m, !m -> tensor<?x?xi32>
  %equal   = kvc.fill 1.0 : !s
  kvc.keep %centres merge(%dest, %equal : tensor<?x?xi32>, !s) protect_last(%w) : !m
}
