// random_policies --file heads-beside-all-rows.mlir --case kv=2,group=2,head_dim=32,seq=100:30
// Sums over all heads began with what lay in shared memory, beside rows of all queries.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
kvc.policy @p {
  %w = arith.constant 8 : index
  %t = kvc.length
  %a = kvc.attention last(%w) : !r
  %b = kvc.attention last(%t) : !r
  %g = kvc.reduce max heads %a : !r -> !r
  %x = kvc.reduce sum queries %g : !r -> !s
  %y = kvc.reduce mean queries %b : !r -> !s
  %z = kvc.reduce mean group %y : !s -> !s
  %score = arith.addf %x, %z : !s
  %n = kvc.allocate uniform : !c
  %k = kvc.topk %score, %n : !s, !c -> !m
  kvc.keep %k : !m
}
