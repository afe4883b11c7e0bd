// Held-out: norms that their readers make again, from vectors that are scaled by them, over
// tokens and over channels; one that is a score as well; a length that is the same for all
// tokens.
!v = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @scaled_vectors {
  %one    = kvc.fill 1.0 : !s
  %v      = kvc.vectors value : !v
  %sum    = kvc.norm l1 value : !s
  %more   = arith.addf %sum, %one : !s
  %scale  = kvc.broadcast %more along channels : !s to !v
  %unit   = arith.divf %v, %scale : !v
  %centre = kvc.reduce max tokens %unit : !v -> !s
  %c      = kvc.broadcast %centre : !s to !v
  %apart  = arith.subf %c, %unit : !v
  %square = arith.mulf %apart, %apart : !v
  %far    = kvc.reduce sum channels %square : !v -> !s
  %size   = arith.mulf %c, %c : !v
  %whole  = kvc.reduce max channels %size : !v -> !s
  %share  = arith.divf %far, %whole : !s
  %k      = kvc.vectors key : !v
  %length = kvc.norm l2 key : !s
  %along  = kvc.broadcast %length along channels : !s to !v
  %less   = arith.subf %k, %along : !v
  %least  = kvc.reduce min channels %less : !v -> !s
  %below  = arith.subf %share, %least : !s
  %score  = arith.addf %below, %length : !s
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
