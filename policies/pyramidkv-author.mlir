// PyramidKV as its authors' code rounds: an integer step between layers.
//   lo = b / beta, hi = 2b - lo; hi >= T - w: hi = T - w, lo = 2b - hi (all floored)
//   n[l] = hi - l * ((hi - lo) / (L - 1)); T < 2b: b. The mean drifts above b.
// window w, b = B - w; width of the max-pool; beta as above
!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @pyramidkv_author {
  %window = kvc.param "window" = 32 : index
  %width  = kvc.param "width" = 7 : index
  %beta   = kvc.param "beta" = 20 : index
  %one    = arith.constant 1 : index
  %T      = kvc.length
  %B      = kvc.budget
  %L      = kvc.layers
  %l      = kvc.layer
  %w      = arith.minui %window, %B : index
  %b      = arith.subi %B, %w : index
  %past   = arith.subi %T, %w : index
  %twice  = arith.addi %b, %b : index
  %lo0    = arith.divui %b, %beta : index
  %hi0    = arith.subi %twice, %lo0 : index
  %hi     = arith.minui %hi0, %past : index
  %lo     = arith.subi %twice, %hi : index
  %fall   = arith.subi %hi, %lo : index
  %gaps   = arith.subi %L, %one : index
  %step   = arith.divui %fall, %gaps : index
  %down   = arith.muli %l, %step : index
  %line   = arith.subi %hi, %down : index
  %short  = arith.cmpi ult, %T, %twice : index
  %single = arith.cmpi eq, %L, %one : index
  %flat   = arith.ori %short, %single : i1
  %n      = arith.select %flat, %b, %line : index
  %rows   = kvc.attention last(%window) : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %group  = kvc.reduce mean group %mean : !scores -> !scores
  %score  = kvc.pool max %group width(%width) : !scores
  %count  = kvc.broadcast %n : index to tensor<?xi32>
  %kept   = kvc.topk %score, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
