// What rows carry is made of the new queries and of a window of a fixed size in one
// walk, with a maximum and a norm of keys; it is not what is ranked.
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @both_windows_carried {
  %window = kvc.param "window" = 5 : index
  %new    = kvc.new_queries
  %rows   = kvc.attention last(%new) : !rows
  %few    = kvc.attention last(%window) : !rows
  %most   = kvc.reduce max queries %rows : !rows -> !scores
  %sum    = kvc.reduce sum queries %few : !rows -> !scores
  %both   = arith.addf %most, %sum : !scores
  %drawn  = kvc.reduce mean group %both : !scores -> !scores
  %before = kvc.row_state "most" : !scores
  %larger = arith.maximumf %before, %drawn : !scores
  %norm   = kvc.norm l2 key : !scores
  %score  = arith.subf %larger, %norm : !scores
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) carry("most" = %larger : !scores) : tensor<?x?xi1>
}
