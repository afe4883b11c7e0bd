// LagKV: what stands out against what follows it. Liang et al., "LagKV: Lag-Relative Information of the
// KV Cache Tells Which Tokens Are Important", 2025. Behind `sinks` rows the past is cut in segments of `lag`.
//   S[g,t] rank of s(key) + s(value) in its segment, s the softmax over it of std_c(u), u = (x - min) /
//          (max - min) of a key after RoPE or a value, min and max over the next segment. The sinks come
//          first, then the last whole segment and what lies behind it, the latest first, then the rest
!vectors = tensor<?x?x?xf32>
!scores  = tensor<?x?xf32>
kvc.policy @lagkv {
  %lag   = kvc.param "lag" = 128 : index
  %sinks = kvc.param "sinks" = 4 : index
  %k     = kvc.vectors key : !vectors
  %ku    = kvc.segment minmax next %k length(%lag) from(%sinks) : !vectors
  %kstd  = kvc.reduce std channels %ku : !vectors -> !scores
  %ks    = kvc.segment softmax %kstd length(%lag) from(%sinks) : !scores
  %v     = kvc.vectors value : !vectors
  %vu    = kvc.segment minmax next %v length(%lag) from(%sinks) : !vectors
  %vstd  = kvc.reduce std channels %vu : !vectors -> !scores
  %vs    = kvc.segment softmax %vstd length(%lag) from(%sinks) : !scores
  %both  = arith.addf %ks, %vs : !scores
  %rank  = kvc.segment rank %both length(%lag) from(%sinks) : !scores
  %n     = kvc.count_rows all : tensor<?xi32>
  %first = kvc.broadcast %sinks : index to tensor<?xi32>
  %lags  = kvc.broadcast %lag : index to tensor<?xi32>
  %past  = arith.subi %n, %first : tensor<?xi32>
  %rest  = arith.remui %past, %lags : tensor<?xi32>
  %tail  = arith.addi %rest, %lags : tensor<?xi32>
  %ends  = kvc.broadcast %tail : tensor<?xi32> to tensor<?x?xi32>
  %end   = kvc.position row from_end : tensor<?x?xi32>
  %late  = arith.cmpi ult, %end, %ends : tensor<?x?xi32>
  %row   = kvc.position row : tensor<?x?xi32>
  %t     = arith.uitofp %row : tensor<?x?xi32> to !scores
  %front = kvc.broadcast %sinks : index to tensor<?x?xi32>
  %sink  = arith.cmpi ult, %row, %front : tensor<?x?xi32>
  %inf   = kvc.fill 0x7F800000 : !scores
  %tails = arith.select %late, %t, %rank : tensor<?x?xi1>, !scores
  %score = arith.select %sink, %inf, %tails : tensor<?x?xi1>, !scores
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
