// H2O whose evicted tokens are merged into the heavy ones: what rows carry is added up.
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!mask   = tensor<?x?xi1>
kvc.policy @merged_mass {
  %w      = kvc.param "window" = 6 : index
  %new    = kvc.new_queries
  %rows   = kvc.attention last(%new) : !rows
  %sums   = kvc.reduce sum queries %rows : !rows -> !scores
  %drawn  = kvc.reduce mean group %sums : !scores -> !scores
  %before = kvc.row_state "mass" : !scores
  %mass   = arith.addf %before, %drawn : !scores
  %n      = kvc.allocate uniform : tensor<?xi32>
  %heavy  = kvc.topk %mass, %n : !scores, tensor<?xi32> -> !mask
  %true   = arith.constant true
  %all    = kvc.broadcast %true : i1 to !mask
  %light  = arith.xori %heavy, %all : !mask
  %tau    = arith.constant 0.3 : f32
  %dest   = kvc.nearest %light in %heavy of raw_key at_least(%tau) : !mask, !mask -> tensor<?x?xi32>
  kvc.keep %heavy merge(%dest, %mass : tensor<?x?xi32>, !scores) protect_last(%w) carry("mass" = %mass : !scores) : !mask
}
