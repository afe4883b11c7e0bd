// Held-out: no attention at all. Half the budget by value norm, then the best of
// the rest by key norm, sinks forced; two top-k, the first as a mask. A division by 0
// on the way divides by 1.
!scores = tensor<?x?xf32>
!counts = tensor<?xi32>
!mask   = tensor<?x?xi1>
kvc.policy @union_of_masks {
  %recent = arith.constant 4 : index
  %two    = arith.constant 2 : i32
  %sinks  = arith.constant 2 : i32
  %inf    = arith.constant 0x7F800000 : f32
  %k      = kvc.norm l2 key : !scores
  %v      = kvc.norm l1 value : !scores
  %count  = kvc.allocate uniform : !counts
  %twos   = kvc.broadcast %two : i32 to !counts
  %zero   = arith.subi %twos, %twos : !counts
  %same   = arith.divui %count, %zero : !counts
  %half   = arith.divui %same, %twos : !counts
  %first  = kvc.topk %v, %half : !scores, !counts -> !mask
  %t      = kvc.position : tensor<?x?xi32>
  %end    = kvc.broadcast %sinks : i32 to tensor<?x?xi32>
  %sink   = arith.cmpi ult, %t, %end : tensor<?x?xi32>
  %forced = arith.ori %first, %sink : !mask
  %most   = kvc.broadcast %inf : f32 to !scores
  %score  = arith.select %forced, %most, %k : !mask, !scores
  %kept   = kvc.topk %score, %count : !scores, !counts -> !mask
  kvc.keep %kept protect_last(%recent) : !mask
}
