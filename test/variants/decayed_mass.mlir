// Two numbers that rows carry: what a row has drawn, less of it the longer ago, and how
// many runs it has been through. Ranked by the first beside what a window of queries
// says; a mean over new queries, of which there may be none.
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @decayed_mass {
  %window = kvc.param "window" = 7 : index
  %decay  = kvc.param "decay" = 0.75 : f32
  %new    = kvc.new_queries
  %rows   = kvc.attention last(%new) : !rows
  %sums   = kvc.reduce sum queries %rows : !rows -> !scores
  %drawn  = kvc.reduce max group %sums : !scores -> !scores
  %before = kvc.row_state "mass" : !scores
  %share  = kvc.broadcast %decay : f32 to !scores
  %mass   = math.fma %before, %share, %drawn : !scores
  %age    = kvc.row_state "age" : !scores
  %one    = kvc.fill 1.0 : !scores
  %older  = arith.addf %age, %one : !scores
  %few    = kvc.attention last(%window) : !rows
  %means  = kvc.reduce mean queries %few : !rows -> !scores
  %recent = kvc.reduce mean group %means : !scores -> !scores
  %near   = kvc.pool max %recent width(%window) : !scores
  %score  = arith.addf %mass, %near : !scores
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) carry("age" = %older : !scores, "mass" = %mass : !scores) : tensor<?x?xi1>
}
