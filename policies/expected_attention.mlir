// Expected Attention: how much will queries that are still to come look at a token?
// Devoto et al., "Expected Attention: KV Cache Compression by Estimating Attention
// from Future Queries Distribution", 2025. Future queries are taken as normal, with the
// moments of the last `recent` ones after RoPE (the paper rotates those of all queries).
//   E[h,t] mean + variance / 2 over them of the logit z[h,i,t]: log of the mean of exp z
//   S[g,t] group mean of softmax over t of E, times ||v[g,t]||_2; no window, the first
//          `sinks` tokens and the best up to B are kept
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @expected_attention {
  %recent  = kvc.param "recent" = 32 : index
  %sinks   = kvc.param "sinks" = 4 : index
  %z       = kvc.attention last(%recent) logits : !rows
  %square  = arith.mulf %z, %z : !rows
  %mean    = kvc.reduce mean queries %z : !rows -> !scores
  %second  = kvc.reduce mean queries %square : !rows -> !scores
  %half    = kvc.fill 0.5 : !scores
  %first   = arith.mulf %mean, %mean : !scores
  %var     = arith.subf %second, %first : !scores
  %e       = math.fma %var, %half, %mean : !scores
  %most    = kvc.reduce max tokens %e : !scores -> tensor<?xf32>
  %top     = kvc.broadcast %most : tensor<?xf32> to !scores
  %below   = arith.subf %e, %top : !scores
  %weight  = math.exp %below : !scores
  %total   = kvc.reduce sum tokens %weight : !scores -> tensor<?xf32>
  %sum     = kvc.broadcast %total : tensor<?xf32> to !scores
  %share   = arith.divf %weight, %sum : !scores
  %group   = kvc.reduce mean group %share : !scores -> !scores
  %norm    = kvc.norm l2 value : !scores
  %s       = arith.mulf %group, %norm : !scores
  %t       = kvc.position : tensor<?x?xi32>
  %end     = kvc.broadcast %sinks : index to tensor<?x?xi32>
  %sink    = arith.cmpi ult, %t, %end : tensor<?x?xi32>
  %inf     = kvc.fill 0x7F800000 : !scores
  %score   = arith.select %sink, %inf, %s : tensor<?x?xi1>, !scores
  %count   = kvc.allocate uniform : tensor<?xi32>
  %kept    = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
