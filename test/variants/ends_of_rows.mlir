// Far from the middle of a head's rows: scores by row numbers, and the first quarter of all
// rows, the window's counted, is safe.
!scores = tensor<?x?xf32>
kvc.policy @ends_of_rows {
  %window  = kvc.param "window" = 8 : index
  %quarter = kvc.fraction "0.25"
  %row     = kvc.position row : tensor<?x?xi32>
  %behind  = kvc.position row from_end : tensor<?x?xi32>
  %far     = arith.maxui %row, %behind : tensor<?x?xi32>
  %t       = arith.uitofp %far : tensor<?x?xi32> to !scores
  %norm    = kvc.norm l2 key : !scores
  %s       = arith.mulf %t, %norm : !scores
  %all     = kvc.count_rows all : tensor<?xi32>
  %first   = kvc.scale_count %all by(%quarter) : tensor<?xi32>
  %end     = kvc.broadcast %first : tensor<?xi32> to tensor<?x?xi32>
  %safe    = arith.cmpi ult, %row, %end : tensor<?x?xi32>
  %inf     = kvc.fill 0x7F800000 : !scores
  %score   = arith.select %safe, %inf, %s : tensor<?x?xi1>, !scores
  %past    = kvc.count_rows : tensor<?xi32>
  %b       = kvc.allocate uniform : tensor<?xi32>
  %few     = arith.minui %past, %b : tensor<?xi32>
  %kept    = kvc.topk %score, %few : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}
