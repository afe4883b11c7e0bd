// random_policies --file rows-and-fill.mlir --case kv=2,group=2,head_dim=32,seq=64:20
// Rows and a constant were refused.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
!h = tensor<?xf32>
!i = tensor<?x?xi32>
kvc.policy @p {
  %w = arith.constant 16 : index
  %eb = kvc.fill 1.0 : !r
  %a = kvc.attention last(%w) : !r
  %b = arith.addf %a, %eb : !r
  %y = kvc.reduce sum queries %b : !r -> !s
  %score = kvc.reduce sum group %y : !s -> !s
  %n = kvc.allocate uniform : !c
  %k = kvc.topk %score, %n : !s, !c -> !m
  kvc.keep %k : !m
}
