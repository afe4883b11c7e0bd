// Counts of the best scores of either sign: sums of channels, half of them below 0, and
// their squares, which are spread over many powers of two. All but a part of what they add
// up to.
!vectors = tensor<?x?x?xf32>
!scores  = tensor<?x?xf32>
!counts  = tensor<?xi32>
kvc.policy @signed_mass {
  %rest   = kvc.param "rest" = 0.5 : f32
  %v      = kvc.vectors value : !vectors
  %sum    = kvc.reduce sum channels %v : !vectors -> !scores
  %square = arith.mulf %sum, %sum : !scores
  %fourth = arith.mulf %square, %square : !scores
  %few    = kvc.count_mass %fourth all_but(%rest) : !scores -> !counts
  %more   = kvc.count_mass %sum all_but(%rest) : !scores -> !counts
  %b      = kvc.allocate uniform : !counts
  %least  = arith.minui %few, %b : !counts
  %first  = kvc.topk %fourth, %least : !scores, !counts -> tensor<?x?xi1>
  %top    = kvc.fill 0x7F800000 : !scores
  %score  = arith.select %first, %top, %sum : tensor<?x?xi1>, !scores
  %most   = arith.minui %more, %b : !counts
  %kept   = kvc.topk %score, %most : !scores, !counts -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
