// StreamingLLM: attention sinks and the most recent tokens.
// Xiao et al., "Efficient Streaming Language Models with Attention Sinks", 2023.
//
//   kept   the first min(sinks, B) tokens, and the last B - min(sinks, B)
//
// Keys keep the rotation of their position (the paper rotates by cache slot).
//
// sinks  tokens kept at the start
kvc.policy @streaming_llm {
  %sinks  = kvc.param "sinks" = 4 : index
  %budget = kvc.budget
  %first  = arith.minui %sinks, %budget : index
  %recent = arith.subi %budget, %first : index
  %t      = kvc.position : tensor<?x?xi32>
  %end    = kvc.broadcast %first : index to tensor<?x?xi32>
  %sink   = arith.cmpi ult, %t, %end : tensor<?x?xi32>
  kvc.keep %sink protect_last(%recent) : tensor<?x?xi1>
}
