// Held-out: column sums over all queries under a square root, pooled; the rows of
// the last queries pooled one by one are added, and recent tokens grow with T.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @root_of_sums {
  %nine   = arith.constant 9 : index
  %three  = arith.constant 3 : index
  %few    = arith.constant 12 : index
  %tokens = kvc.length
  %recent = arith.divui %tokens, %nine : index
  %all    = kvc.attention last(%tokens) : !r
  %last   = kvc.attention last(%few) : !r
  %sums   = kvc.reduce sum queries %all : !r -> !s
  %root   = math.sqrt %sums : !s
  %pooled = kvc.pool mean %last width(%three) : !r
  %peak   = kvc.reduce max queries %pooled : !r -> !s
  %both   = arith.addf %root, %peak : !s
  %group  = kvc.reduce max group %both : !s -> !s
  %score  = kvc.pool mean %group width(%nine) : !s
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%recent) : tensor<?x?xi1>
}
