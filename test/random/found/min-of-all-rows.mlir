// random_policies --file min-of-all-rows.mlir --case kv=2,group=2,head_dim=32,seq=100:30
// Rows of queries that do not see a token were skipped, though 0 is the minimum.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
!h = tensor<?xf32>
!i = tensor<?x?xi32>
kvc.policy @p {
  %t = kvc.length
  %a = kvc.attention last(%t) : !r
  %x = kvc.reduce min queries %a : !r -> !s
  %score = kvc.reduce max group %x : !s -> !s
  %n = kvc.allocate uniform : !c
  %k = kvc.topk %score, %n : !s, !c -> !m
  kvc.keep %k : !m
}
