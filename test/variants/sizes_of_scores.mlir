// Held-out: selections by scores of all sizes, which share a first digit where it is
// coarse (codegen/kernels/FirstDigit.h): half by sizes near 2^-80, a quarter by negative
// ones near -2^-60, the rest, over all heads, by sizes near 2^40, odd tokens before even
// ones and these negative.
!s = tensor<?x?xf32>
!b = tensor<?x?xi1>
!c = tensor<?xi32>
kvc.policy @sizes_of_scores {
  %w       = arith.constant 3 : index
  %half    = kvc.fraction "0.5"
  %quarter = kvc.fraction "0.75"
  %guard   = kvc.fraction "0.1"
  %k       = kvc.norm l2 key : !s
  %v       = kvc.norm l2 value : !s
  %tiny    = kvc.fill 0x17800000 : !s
  %below   = kvc.fill 0xA1800000 : !s
  %huge    = kvc.fill 0x53800000 : !s
  %inf     = kvc.fill 0x7F800000 : !s
  %small   = arith.mulf %k, %tiny : !s
  %least   = arith.mulf %v, %below : !s
  %large   = arith.mulf %k, %huge : !s
  %minus   = arith.negf %large : !s
  %t       = kvc.position : tensor<?x?xi32>
  %one     = arith.constant 1 : index
  %ones    = kvc.broadcast %one : index to tensor<?x?xi32>
  %odd     = arith.andi %t, %ones : tensor<?x?xi32>
  %isodd   = arith.cmpi eq, %odd, %ones : tensor<?x?xi32>
  %signed  = arith.select %isodd, %large, %minus : !b, !s
  %base    = kvc.allocate uniform : !c
  %count   = kvc.allocate_heads %signed base(%base) safeguard(%guard) : !s, !c
  %c1      = kvc.scale_count %count by(%half) : !c
  %first   = kvc.topk %small, %c1 : !s, !c -> !b
  %s2      = arith.select %first, %inf, %least : !b, !s
  %c2      = kvc.scale_count %count by(%quarter) : !c
  %second  = kvc.topk %s2, %c2 : !s, !c -> !b
  %s3      = arith.select %second, %inf, %signed : !b, !s
  %kept    = kvc.topk %s3, %count : !s, !c -> !b
  kvc.keep %kept protect_last(%w) : !b
}
