// random_policies --file vectors-over-heads.mlir --case kv=2,group=4,head_dim=64,seq=64:20
// Vectors that are reduced over heads were taken for attention rows.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
!c = tensor<?xi32>
!m = tensor<?x?xi1>
!h = tensor<?xf32>
!i = tensor<?x?xi32>
kvc.policy @p {
  %w = arith.constant 16 : index
  %v = kvc.vectors key : !r
  %h = kvc.reduce sum heads %v : !r -> !r
  %x = kvc.reduce sum channels %h : !r -> !s
  %a = kvc.attention last(%w) : !r
  %y = kvc.reduce sum queries %a : !r -> !s
  %z = kvc.reduce sum group %y : !s -> !s
  %score = arith.addf %x, %z : !s
  %n = kvc.allocate uniform : !c
  %k = kvc.topk %score, %n : !s, !c -> !m
  kvc.keep %k : !m
}
