// Held-out for kvc-prune-norms: the largest norm of a group times a factor that may
// be negative or 0, nothing forced, no window.
!s = tensor<?x?xf32>
kvc.policy @pruned_product {
  %n     = kvc.projected_norm l1 : !s
  %g     = kvc.reduce max group %n : !s -> !s
  %v     = kvc.norm l1 value : !s
  %k     = kvc.norm l1 key : !s
  %x     = arith.subf %k, %v : !s
  %zero  = kvc.fill 0.0 : !s
  %some  = arith.cmpf ogt, %x, %zero : !s
  %y     = arith.select %some, %x, %zero : tensor<?x?xi1>, !s
  %z     = arith.addf %x, %y : !s
  %score = arith.mulf %g, %z : !s
  %b     = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %b : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
