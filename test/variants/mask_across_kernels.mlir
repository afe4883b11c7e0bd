// Held-out: half of each head's budget by value norm, as a mask that crosses kernels;
// the masked scores share the budget among heads, and what stays is the union.
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
kvc.policy @mask_across_kernels {
  %w = arith.constant 3 : index
  %g = kvc.fraction "0.5"
  %k = kvc.norm l2 key : !s
  %v = kvc.norm l2 value : !s
  %b = kvc.allocate uniform : !c
  %h = kvc.scale_count %b by(%g) : !c
  %first = kvc.topk %v, %h : !s, !c -> !m
  %p = kvc.pool mean %k width(%w) : !s
  %inf = arith.constant 0x7F800000 : f32
  %infs = kvc.broadcast %inf : f32 to !s
  %q = arith.select %first, %infs, %p : !m, !s
  %n = kvc.allocate_heads %q base(%b) safeguard(%g) : !s, !c
  %kept = kvc.topk %q, %n : !s, !c -> !m
  %both = arith.ori %kept, %first : !m
  kvc.keep %both protect_last(%w) : !m
}
