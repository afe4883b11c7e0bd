// Held-out: vectors divided by numbers so small that their inverse is none of fp32, over tokens
// and over channels, of either sign.
!v = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @tiny_divisors {
  %little  = kvc.fill 0x04000000 : !s
  %small   = kvc.broadcast %little along channels : !s to !v
  %smaller = kvc.fill 0x80004000 : !s
  %v       = kvc.vectors key : !v
  %length  = kvc.norm l1 key : !s
  %below   = arith.mulf %v, %small : !v
  %tiny    = arith.mulf %length, %smaller : !s
  %all     = kvc.broadcast %tiny along channels : !s to !v
  %large   = arith.divf %below, %all : !v
  %centre  = kvc.reduce mean tokens %large : !v -> !s
  %c       = kvc.broadcast %centre : !s to !v
  %apart   = arith.subf %large, %c : !v
  %square  = arith.mulf %apart, %apart : !v
  %score   = kvc.reduce sum channels %square : !v -> !s
  %count   = kvc.allocate uniform : tensor<?xi32>
  %kept    = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
