// HeadKV: budgets by how much each head retrieves, measured offline.
// Fu et al., "Not All Heads Matter: A Head-Level KV Cache Compression Method with
// Integrated Retrieval and Reasoning", 2024.
//
//   S      as snapkv
//   n[l,g] b - p + r[l,g] * p * L * Hkv, p = b / beta (rounded down), r the head's
//          share of the table; largest remainder over the model, none above T - w
//
// Reads the importance of every query head of the model (--table).
//
// window  w, observation window, always kept; b = B - w
// width   of the max-pool over tokens
// beta    the larger, the smaller the part that the table shares out
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @headkv {
  %window = kvc.param "window" = 32 : index
  %width  = kvc.param "width" = 7 : index
  %beta   = kvc.param "beta" = "1.2" : !kvc.fraction
  %rows   = kvc.attention last(%window) : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %group  = kvc.reduce mean group %mean : !scores -> !scores
  %score  = kvc.pool max %group width(%width) : !scores
  %budget = kvc.budget
  %w      = arith.minui %window, %budget : index
  %b      = arith.subi %budget, %w : index
  %part   = kvc.scale_count %b over(%beta) : index
  %pool   = arith.minui %part, %b : index
  %least  = arith.subi %b, %pool : index
  %count  = kvc.allocate_table base(%least) shared(%pool) : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
