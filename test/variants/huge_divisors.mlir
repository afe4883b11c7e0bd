// Held-out: vectors divided by a number so large that its inverse is subnormal and has fewer
// bits.
!v = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @huge_divisors {
  %large  = kvc.fill 0x7B800000 : !s
  %all    = kvc.broadcast %large along channels : !s to !v
  %huge   = kvc.fill 0xFF200000 : !s
  %huges  = kvc.broadcast %huge along channels : !s to !v
  %v      = kvc.vectors key : !v
  %wide   = arith.mulf %v, %all : !v
  %part   = arith.divf %wide, %huges : !v
  %square = arith.mulf %part, %part : !v
  %score  = kvc.reduce sum channels %square : !v -> !s
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
