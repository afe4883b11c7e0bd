// Held-out: two stages by projected values, L2 norms, the largest of a group, three
// tenths of the budget in the first stage; heads share by the product.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
kvc.policy @l2_perturbation {
  %w     = kvc.param "window" = 16 : index
  %alpha = kvc.param "alpha" = "0.3" : !kvc.fraction
  %guard = kvc.fraction "0.25"
  %rows  = kvc.attention last(%w) : !r
  %mean  = kvc.reduce mean queries %rows : !r -> !s
  %s     = kvc.reduce mean group %mean : !s -> !s
  %norms = kvc.projected_norm l2 : !s
  %n     = kvc.reduce max group %norms : !s -> !s
  %flat  = kvc.projected_norm l1 : !s
  %n1    = kvc.reduce mean group %flat : !s -> !s
  %both  = arith.addf %n, %n1 : !s
  %prod  = arith.mulf %s, %both : !s
  %b     = kvc.allocate uniform : !c
  %count = kvc.allocate_heads %prod base(%b) safeguard(%guard) : !s, !c
  %part  = kvc.scale_count %count by(%alpha) : !c
  %first = kvc.topk %s, %part : !s, !c -> !m
  %inf   = kvc.fill 0x7F800000 : !s
  %score = arith.select %first, %inf, %prod : !m, !s
  %kept  = kvc.topk %score, %count : !s, !c -> !m
  kvc.keep %kept protect_last(%w) : !m
}
