// H2O: the tokens that have drawn the most attention so far, and the recent ones.
// Zhang et al., "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of
// Large Language Models", 2023.
//
//   S[g,t] mean over the group of  the sum over all queries i of  A[h,i,t]
//   kept   the last B / 2 tokens (rounded down); of the others, the best to fill B
//
// Reads the queries of the whole prompt. The sums are not divided by the number of
// queries that see a token, so they favour early ones: as in the paper.
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @h2o {
  %two    = arith.constant 2 : index
  %budget = kvc.budget
  %recent = arith.divui %budget, %two : index
  %tokens = kvc.length
  %rows   = kvc.attention last(%tokens) : !rows
  %sums   = kvc.reduce sum queries %rows : !rows -> !scores
  %score  = kvc.reduce mean group %sums : !scores -> !scores
  %heavy  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %heavy : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%recent) : tensor<?x?xi1>
}
