// Held-out: vectors of query heads and of KV heads against their segments, reductions over
// channels within one another, all kinds of them; segments that are longer than what a block
// has of them at a time; ranks in a front whose length only the launch knows.
!v = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @segments_of_vectors {
  %w     = arith.constant 8 : index
  %long  = arith.constant 150 : index
  %T     = kvc.length
  %from  = arith.remui %T, %long : index
  %a     = kvc.attention last(%w) : !v
  %m     = kvc.reduce max queries %a : !v -> !s
  %k     = kvc.vectors key : !v
  %rms   = kvc.reduce std channels %k : !v -> !s
  %rmsc  = kvc.broadcast %rms along channels : !s to !v
  %unit  = arith.divf %k, %rmsc : !v
  %range = kvc.segment minmax next %unit length(%long) from(%from) : !v
  %dev   = kvc.reduce std channels %range : !v -> !s
  %val   = kvc.vectors value : !v
  %mc    = kvc.broadcast %m along channels : !s to !v
  %mine  = arith.mulf %mc, %val : !v
  %sum   = kvc.segment sum %mine length(%long) from(%from) : !v
  %mean  = kvc.segment mean next %val length(%long) from(%from) : !v
  %far   = arith.subf %sum, %mean : !v
  %abs   = math.absf %far : !v
  %devc  = kvc.broadcast %dev along channels : !s to !v
  %much  = arith.mulf %abs, %devc : !v
  %most  = kvc.reduce max channels %much : !v -> !s
  %least = kvc.reduce min channels %abs : !v -> !s
  %total = kvc.reduce sum channels %mine : !v -> !s
  %x     = arith.addf %most, %least : !s
  %y     = arith.addf %x, %total : !s
  %group = kvc.reduce mean group %y : !s -> !s
  %p     = arith.addf %group, %dev : !s
  %rank  = kvc.segment rank %p length(%long) from(%from) : !s
  %ahead = kvc.segment rank next %m length(%long) from(%from) : !s
  %late  = kvc.reduce mean group %ahead : !s -> !s
  %score = arith.addf %rank, %late : !s
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%w) : tensor<?x?xi1>
}
