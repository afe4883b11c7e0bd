// Held-out: what all queries have given a token, as its share by softmax over tokens,
// above the least of them: a maximum with its sum of exponentials and a minimum, both of
// parts of what one columns kernel makes.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!h = tensor<?xf32>
kvc.policy @softmax_of_all {
  %w     = arith.constant 9 : index
  %t     = kvc.length
  %a     = kvc.attention last(%t) : !r
  %mass  = kvc.reduce sum queries %a : !r -> !s
  %least = kvc.reduce min tokens %mass : !s -> !h
  %lb    = kvc.broadcast %least : !h to !s
  %off   = arith.subf %mass, %lb : !s
  %most  = kvc.reduce max tokens %mass : !s -> !h
  %mb    = kvc.broadcast %most : !h to !s
  %below = arith.subf %mass, %mb : !s
  %e     = math.exp %below : !s
  %sum   = kvc.reduce sum tokens %e : !s -> !h
  %sb    = kvc.broadcast %sum : !h to !s
  %share = arith.divf %e, %sb : !s
  %both  = arith.mulf %share, %off : !s
  %score = kvc.reduce mean group %both : !s -> !s
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%w) : tensor<?x?xi1>
}
