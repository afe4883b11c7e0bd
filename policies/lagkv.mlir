// LagKV: what stands out against the tokens that follow it.
// Liang et al., "LagKV: Lag-Relative Information of the KV Cache Tells Which Tokens Are
// Important", 2025. Behind `sinks` tokens the past is cut into segments of `lag`.
//   u      (x - min) / (max - min), x a key after RoPE or a value, per channel; min and
//          max over the next segment; s = softmax over the own segment of std_c(u)
//   S[g,t] rank of s(key) + s(value) in its segment. The sinks come first, then the last
//          whole segment and what lies behind it, the latest tokens first, then the rest
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
  %T     = kvc.length
  %past  = arith.subi %T, %sinks : index
  %rest  = arith.remui %past, %lag : index
  %tail  = arith.addi %rest, %lag : index
  %n     = kvc.broadcast %tail : index to tensor<?x?xi32>
  %end   = kvc.position from_end : tensor<?x?xi32>
  %late  = arith.cmpi ult, %end, %n : tensor<?x?xi32>
  %pos   = kvc.position : tensor<?x?xi32>
  %t     = arith.uitofp %pos : tensor<?x?xi32> to !scores
  %front = kvc.broadcast %sinks : index to tensor<?x?xi32>
  %sink  = arith.cmpi ult, %pos, %front : tensor<?x?xi32>
  %inf   = kvc.fill 0x7F800000 : !scores
  %tails = arith.select %late, %t, %rank : tensor<?x?xi1>, !scores
  %score = arith.select %sink, %inf, %tails : tensor<?x?xi1>, !scores
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
