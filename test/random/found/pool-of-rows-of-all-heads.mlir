// random_policies --file pool-of-rows-of-all-heads.mlir --case kv=2,group=2,head_dim=32,seq=64:30
// A pool of rows that are reduced over all heads looked at its own token only.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
!h = tensor<?xf32>
!i = tensor<?x?xi32>
kvc.policy @p {
  %w = arith.constant 8 : index
  %o = arith.constant 5 : index
  %a = kvc.attention last(%w) : !r
  %g = kvc.reduce max heads %a : !r -> !r
  %p = kvc.pool mean %g width(%o) : !r
  %score = kvc.reduce sum queries %p : !r -> !s
  %n = kvc.allocate uniform : !c
  %k = kvc.topk %score, %n : !s, !c -> !m
  kvc.keep %k : !m
}
