// H2O: the tokens that have drawn the most attention so far, and the recent ones.
// Zhang et al., "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of
// Large Language Models", 2023.
//
//   S[g,t] mass of row t so far, and mean over the group of  the sum over the new
//          queries i of  A[h,i,t]
//   kept   the last B / 2 tokens (rounded down); of the others, the best to fill B
//
// Behind a prompt all queries are new: those of the whole prompt are read. Each later
// run adds what its own queries draw. The sums are not divided by the number of
// queries that see a token, so they favour early ones: as in the paper.
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @h2o {
  %two    = arith.constant 2 : index
  %budget = kvc.budget
  %recent = arith.divui %budget, %two : index
  %new    = kvc.new_queries
  %rows   = kvc.attention last(%new) : !rows
  %sums   = kvc.reduce sum queries %rows : !rows -> !scores
  %drawn  = kvc.reduce mean group %sums : !scores -> !scores
  %before = kvc.row_state "mass" : !scores
  %mass   = arith.addf %before, %drawn : !scores
  %heavy  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %mass, %heavy : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%recent) carry("mass" = %mass : !scores) : tensor<?x?xi1>
}
