// CriticalKV on SnapKV as kvpress computes it: the window is no zone of its own.
//   S[g,t] as snapkv-kvpress on the past; 1 + the largest in the window; N as criticalkv
//   kept   the alpha * B best by S (rounded down), then by (S + epsilon) * N up to B
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!counts = tensor<?xi32>
!mask   = tensor<?x?xi1>
kvc.policy @criticalkv_kvpress {
  %window  = kvc.param "window" = 64 : index
  %width   = kvc.param "width" = 5 : index
  %alpha   = kvc.param "alpha" = "0.5" : !kvc.fraction
  %epsilon = kvc.param "epsilon" = 1.0e-4 : f32
  %age     = kvc.position from_end : tensor<?x?xi32>
  %young   = kvc.broadcast %window : index to tensor<?x?xi32>
  %recent  = arith.cmpi ult, %age, %young : tensor<?x?xi32>
  %zero    = kvc.fill 0.0 : !scores
  %rows    = kvc.attention last(%window) rounded : !rows
  %mean    = kvc.reduce mean queries %rows : !rows -> !scores
  %past    = arith.select %recent, %zero, %mean : !mask, !scores
  %pooled  = kvc.pool mean %past width(%width) count_padding : !scores
  %group   = kvc.reduce mean group %pooled : !scores -> !scores
  %most    = kvc.reduce max heads %group : !scores -> !scores
  %best    = kvc.reduce max tokens %most : !scores -> tensor<?xf32>
  %bests   = kvc.broadcast %best : tensor<?xf32> to !scores
  %one     = kvc.fill 1.0 : !scores
  %above   = arith.addf %bests, %one : !scores
  %s       = arith.select %recent, %above, %group : !mask, !scores
  %norms   = kvc.projected_norm l1 : !scores
  %n       = kvc.reduce mean group %norms : !scores -> !scores
  %b       = kvc.allocate uniform : !counts
  %half    = kvc.scale_count %b by(%alpha) : !counts
  %first   = kvc.topk %s, %half : !scores, !counts -> !mask
  %eps     = kvc.broadcast %epsilon : f32 to !scores
  %weight  = arith.addf %s, %eps : !scores
  %product = arith.mulf %weight, %n : !scores
  %forced  = kvc.fill 0x7F800000 : !scores
  %score   = arith.select %first, %forced, %product : !mask, !scores
  %kept    = kvc.topk %score, %b : !scores, !counts -> !mask
  kvc.keep %kept : !mask
}
