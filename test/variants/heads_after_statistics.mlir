// Held-out: each query head relative to its own best token, then the mean over all
// heads (columns, rows, columns and rows kernels in turn), times the key norm.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!h = tensor<?xf32>
kvc.policy @heads_after_statistics {
  %w = kvc.param "window" = 20 : index
  %a = kvc.attention last(%w) : !r
  %m = kvc.reduce mean queries %a : !r -> !s
  %t = kvc.reduce max tokens %m : !s -> !h
  %tb = kvc.broadcast %t : !h to !s
  %rel = arith.divf %m, %tb : !s
  %all = kvc.reduce mean heads %rel : !s -> !s
  %k = kvc.norm l1 key : !s
  %sc = arith.mulf %all, %k : !s
  %n = kvc.allocate uniform : tensor<?xi32>
  %x = kvc.topk %sc, %n : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %x protect_last(%w) : tensor<?x?xi1>
}
