// Held out: rows that wait for something made of themselves, so K is read again.
// How much a token's weight varies over the window, with rows pooled by their
// norm's share, and what no query gives to the heads.
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>

kvc.policy @rows_against_their_mean {
  %window = kvc.param "window" = 16 : index
  %three  = arith.constant 3 : index
  %rows   = kvc.attention last(%window) : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %wide   = kvc.broadcast %mean : !scores to !rows
  %off    = arith.subf %rows, %wide : !rows
  %square = arith.mulf %off, %off : !rows
  %var    = kvc.reduce mean queries %square : !rows -> !scores
  %sigma  = math.sqrt %var : !scores
  %spread = kvc.reduce max group %sigma : !scores -> !scores
  // What all heads together leave to a token, smoothed.
  %one    = kvc.fill 1.0 : !rows
  %heads  = kvc.reduce max heads %rows : !rows -> !rows
  %near   = kvc.pool mean %heads width(%three) : !rows
  %left   = arith.subf %one, %near : !rows
  %unseen = kvc.reduce min queries %left : !rows -> !scores
  %score  = arith.subf %spread, %unseen : !scores
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
