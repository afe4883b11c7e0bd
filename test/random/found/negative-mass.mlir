// random_policies --file negative-mass.mlir --case kv=2,group=2,head_dim=32,seq=100:30
// The reference stopped at the first score, though the sum was to fall further.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
!h = tensor<?xf32>
!i = tensor<?x?xi32>
kvc.policy @p {
  %n1 = kvc.norm l2 key : !s
  %score = arith.negf %n1 : !s
  %c = arith.constant -100.0 : f32
  %mc = kvc.count_mass %score all_but(%c) : !s -> !c
  %n = kvc.allocate uniform : !c
  %k = kvc.topk %score, %mc : !s, !c -> !m
  kvc.keep %k : !m
}
