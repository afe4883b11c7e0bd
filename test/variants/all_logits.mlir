// Held-out: logits of all queries, also those older than the token, beside weights of
// a few; what differs most between the mean and the largest logit.
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @all_logits {
  %w     = arith.constant 6 : index
  %t     = kvc.length
  %z     = kvc.attention last(%t) logits : !r
  %a     = kvc.attention last(%w) : !r
  %mean  = kvc.reduce mean queries %z : !r -> !s
  %most  = kvc.reduce max queries %z : !r -> !s
  %far   = arith.subf %most, %mean : !s
  %peak  = kvc.reduce max queries %a : !r -> !s
  %both  = arith.addf %far, %peak : !s
  %score = kvc.reduce mean group %both : !s -> !s
  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %score, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%w) : tensor<?x?xi1>
}
