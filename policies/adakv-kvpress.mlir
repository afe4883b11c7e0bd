// Ada-SnapKV as kvpress computes it: a minimum guarantee, and the window no zone of
// its own.
//
//   S[g,t] as snapkv-kvpress on the past; 1 + the largest of them in the window
//   kept   the Hkv * B best of all heads, each head's safeguard * B best (rounded
//          down) before all others
//
// window w; width of the average pool; safeguard
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!counts = tensor<?xi32>
!mask   = tensor<?x?xi1>
kvc.policy @adakv_kvpress {
  %window = kvc.param "window" = 64 : index
  %width  = kvc.param "width" = 5 : index
  %guard  = kvc.param "safeguard" = "0.2" : !kvc.fraction
  %none   = kvc.fraction "0"
  %age    = kvc.position from_end : tensor<?x?xi32>
  %young  = kvc.broadcast %window : index to tensor<?x?xi32>
  %recent = arith.cmpi ult, %age, %young : tensor<?x?xi32>
  %zeros  = kvc.fill 0.0 : !scores
  %above  = kvc.fill 2.0 : !scores
  %rows   = kvc.attention last(%window) rounded : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %past   = arith.select %recent, %zeros, %mean : !mask, !scores
  %pooled = kvc.pool mean %past width(%width) count_padding : !scores
  %group  = kvc.reduce mean group %pooled : !scores -> !scores
  %s      = arith.select %recent, %above, %group : !mask, !scores
  %b      = kvc.allocate uniform : !counts
  %least  = kvc.scale_count %b by(%guard) : !counts
  %first  = kvc.topk %s, %least : !scores, !counts -> !mask
  %forced = kvc.fill 0x7F800000 : !scores
  %score  = arith.select %first, %forced, %s : !mask, !scores
  %count  = kvc.allocate_heads %score base(%b) safeguard(%none) : !scores, !counts
  %kept   = kvc.topk %score, %count : !scores, !counts -> !mask
  kvc.keep %kept : !mask
}
