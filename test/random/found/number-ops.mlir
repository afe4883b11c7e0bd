// random_policies --file number-ops.mlir --case kv=2,group=2,head_dim=32,seq=64:20
// Minnumf and maxnumf were calls that no driver resolves.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
!h = tensor<?xf32>
!i = tensor<?x?xi32>
kvc.policy @p {
  %x = kvc.norm l2 key : !s
  %y = kvc.norm l1 value : !s
  %score = arith.minnumf %x, %y : !s
  %n = kvc.allocate uniform : !c
  %k = kvc.topk %score, %n : !s, !c -> !m
  kvc.keep %k : !m
}
