// Full cache: keeps every token, whatever the budget. The control.
kvc.policy @full {
  %true = arith.constant true
  %all  = kvc.broadcast %true : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}
