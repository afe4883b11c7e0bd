// random_policies --file windows-beside-all-weights.mlir --case kv=1,group=1,head_dim=16,seq=90:40
// A window larger than the queries at hand, in a kernel behind one that reads all: it read in
// front of them (--target ptx says so).
kvc.policy @random {
  %window = arith.constant 300 : index
  %tokens = kvc.length
  %all    = kvc.attention last(%tokens) : tensor<?x?x?xf32>
  %most   = kvc.reduce max queries %all : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %every  = kvc.broadcast %most : tensor<?x?xf32> to tensor<?x?x?xf32>
  %rows   = kvc.attention last(%window) : tensor<?x?x?xf32>
  %sum    = arith.addf %rows, %every : tensor<?x?x?xf32>
  %least  = kvc.reduce min queries %sum : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %group  = kvc.reduce mean group %least : tensor<?x?xf32> -> tensor<?x?xf32>
  %count  = kvc.allocate uniform : tensor<?xi32>
  %kept   = kvc.topk %group, %count : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
