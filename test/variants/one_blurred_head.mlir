// The head whose scores differ least is ranked by the size of its keys, the others by
// attention; all by how far a token's best score of any head is above the worst such
// score. Which head it is and the worst score, all heads say together: in a cache of
// rows also those that keep everything, and those that lack the token.
// Where all keys are equal, rounding decides which head it is:
// matrix: no equal keys
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!h = tensor<?xf32>
kvc.policy @one_blurred_head {
  %w = kvc.param "window" = 12 : index
  %one = arith.constant 1 : index
  %rows = kvc.attention last(%w) : !r
  %mean = kvc.reduce mean queries %rows : !r -> !s
  %s = kvc.reduce mean group %mean : !s -> !s
  %sigma = kvc.reduce std tokens %s : !s -> !h
  %blurry = kvc.select_heads lowest %sigma count(%one) : !h -> tensor<?x?xi1>
  %size = kvc.norm l2 key : !s
  %p = arith.select %blurry, %size, %s : tensor<?x?xi1>, !s
  %best = kvc.reduce max heads %p : !s -> !s
  %worst = kvc.reduce min tokens %best : !s -> !h
  %least = kvc.broadcast %worst : !h to !s
  %above = arith.subf %best, %least : !s
  %score = arith.addf %p, %above : !s
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%w) : tensor<?x?xi1>
}
