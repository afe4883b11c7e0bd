// Held-out: how much weight all heads give together in 16 queries, squared, in the query of
// the most; times the least mean weight of any head, plus the group's mean. Reductions over
// all heads of rows and of columns, by sums and by a minimum, in one walk over the heads.
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @sums_of_heads {
  %window = kvc.param "window" = 32 : index
  %few    = arith.constant 16 : index
  %rows   = kvc.attention last(%window) : !rows
  %last   = kvc.attention last(%few) : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %group  = kvc.reduce mean group %mean : !scores -> !scores
  %all    = kvc.reduce sum heads %last : !rows -> !rows
  %square = arith.mulf %all, %all : !rows
  %most   = kvc.reduce max queries %square : !rows -> !scores
  %least  = kvc.reduce min heads %mean : !scores -> !scores
  %both   = arith.mulf %most, %least : !scores
  %score  = arith.addf %both, %group : !scores
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
