// random_policies --file negative-window.mlir --case kv=2,group=2,head_dim=32,seq=100:30
// A protected number of tokens below 0 read behind the sequence.
!scores = tensor<?x?xf32>
kvc.policy @t {
  %b = kvc.budget
  %c100 = arith.constant 100 : index
  %w = arith.subi %b, %c100 : index
  %n = kvc.norm l2 key : !scores
  %c = kvc.allocate uniform : tensor<?xi32>
  %k = kvc.topk %n, %c : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %k protect_last(%w) : tensor<?x?xi1>
}
