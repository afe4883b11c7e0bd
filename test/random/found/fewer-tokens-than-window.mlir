// random_policies --file fewer-tokens-than-window.mlir --case kv=2,group=2,head_dim=32,seq=20:10,seq=100:30
// The same, for queries in front of a short sequence.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
!h = tensor<?xf32>
!i = tensor<?x?xi32>
kvc.policy @p {
  %t = kvc.length
  %w = arith.constant 32 : index
  %all = kvc.attention last(%t) : !r
  %a = kvc.attention last(%w) : !r
  %g = kvc.reduce max heads %a : !r -> !r
  %y = kvc.reduce sum queries %g : !r -> !s
  %x = kvc.reduce sum queries %all : !r -> !s
  %x1 = kvc.reduce sum group %x : !s -> !s
  %score = arith.addf %y, %x1 : !s
  %n = kvc.allocate uniform : !c
  %k = kvc.topk %score, %n : !s, !c -> !m
  kvc.keep %k : !m
}
