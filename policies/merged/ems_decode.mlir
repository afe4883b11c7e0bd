// EMS while decoding: rows that were merged (ems.mlir) rank again as tokens come, and the
// least goes to the row most like it. For cache=merged; of a run with n new tokens:
//   drawn  of a row: sum over its members of the sum over the new queries i, and mean
//          over the group, of A[h,i,member], the softmax over all members
//   glo, past, cur   what a row carries: glo + drawn, and cur + drawn, which becomes past,
//          and 0 begins anew, when w tokens have come since it last did; s_loc = past + cur
//   s      max(glo * sum(s_loc) / sum(glo), s_loc), the sums over all rows of the head
//   kept   all rows but the n - B of the least s outside the window; of equal s the oldest
//          goes, NaN first; where the window alone has more than B rows, its oldest
//   merged each that goes, into the kept row of the largest cos(k) * cos(v), keys before
//          RoPE, if that is at least tau; means weighted by s_loc. The window's rows and
//          the `closed` best of the others take none
//   at most gamma * B members a head: the oldest that is not its row's only one goes
// With a run for each token all of this is of one token, and one row goes. With several
// the window closes with the run in which it becomes full, and what goes, goes at once.
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!mask   = tensor<?x?xi1>
!heads  = tensor<?xf32>
kvc.policy @ems_decode {
  %w       = kvc.param "window" = 32 : index
  %gamma   = kvc.param "gamma" = "4" : !kvc.fraction
  %tau     = kvc.param "tau" = 0.6 : f32
  %closed  = kvc.param "closed" = 0 : index
  %n       = kvc.new_queries
  %members = kvc.attention last(%n) members : !rows
  %sums    = kvc.reduce sum queries %members : !rows -> !scores
  %each    = kvc.reduce mean group %sums : !scores -> !scores
  %drawn   = kvc.reduce sum members %each : !scores -> !scores
  %since   = kvc.since
  %now     = arith.addi %since, %n : index
  %closed0 = arith.divui %since, %w : index
  %closed1 = arith.divui %now, %w : index
  %full    = arith.cmpi ne, %closed0, %closed1 : index
  %closes  = kvc.broadcast %full : i1 to !mask
  %glo0    = kvc.row_state "glo" : !scores
  %past0   = kvc.row_state "past" : !scores
  %cur0    = kvc.row_state "cur" : !scores
  %zero    = kvc.fill 0.0 : !scores
  %glo     = arith.addf %glo0, %drawn : !scores
  %sum     = arith.addf %cur0, %drawn : !scores
  %past    = arith.select %closes, %sum, %past0 : !mask, !scores
  %cur     = arith.select %closes, %zero, %sum : !mask, !scores
  %local   = arith.addf %past, %cur : !scores
  %sum_loc = kvc.reduce sum tokens %local : !scores -> !heads
  %sum_glo = kvc.reduce sum tokens %glo : !scores -> !heads
  %ratio   = arith.divf %sum_loc, %sum_glo : !heads
  %ratios  = kvc.broadcast %ratio : !heads to !scores
  %scaled  = arith.mulf %glo, %ratios : !scores
  %score   = arith.maximumf %scaled, %local : !scores
  %age     = kvc.position from_end : tensor<?x?xi32>
  %reach   = kvc.broadcast %w : index to tensor<?x?xi32>
  %recent  = arith.cmpi ult, %age, %reach : tensor<?x?xi32>
  %inf     = kvc.fill 0x7F800000 : !scores
  %lowest  = kvc.fill 0xFF800000 : !scores
  %nan     = arith.cmpf uno, %score, %score : !scores
  %less    = arith.negf %score : !scores
  %due     = arith.select %nan, %inf, %less : !mask, !scores
  %goes    = arith.select %recent, %lowest, %due : !mask, !scores
  %rows    = kvc.count_rows : tensor<?xi32>
  %b       = kvc.allocate uniform : tensor<?xi32>
  %over    = arith.subi %rows, %b : tensor<?xi32>
  %sources = kvc.topk %goes, %over : !scores, tensor<?xi32> -> !mask
  %true    = arith.constant true
  %all     = kvc.broadcast %true : i1 to !mask
  %kept    = arith.xori %sources, %all : !mask
  %ranked  = arith.select %recent, %lowest, %score : !mask, !scores
  %p       = kvc.broadcast %closed : index to tensor<?xi32>
  %best    = kvc.topk %ranked, %p : !scores, tensor<?xi32> -> !mask
  %shut    = arith.ori %best, %recent : !mask
  %open    = arith.cmpi ugt, %kept, %shut : !mask
  %dest    = kvc.nearest %sources in %open of raw_key times value at_least(%tau) : !mask, !mask -> tensor<?x?xi32>
  %budget  = kvc.budget
  %most    = kvc.scale_count %budget by(%gamma) : index
  kvc.keep %kept merge(%dest, %local : tensor<?x?xi32>, !scores) at_most(%most) carry("glo" = %glo : !scores, "past" = %past : !scores, "cur" = %cur : !scores) : !mask
}
