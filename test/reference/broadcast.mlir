// kvc.broadcast: from less to more, and elementwise ops that do it by themselves.
// RUN: split-file %s %t
// RUN: kvc-opt %t/forms.mlir --interpret --trace --input %t/in.json | FileCheck %s --match-full-lines

// CHECK:      %count = kvc.broadcast: one_head 1
// CHECK-NEXT: 2
// CHECK:      %scalar = kvc.broadcast: one_head 1, past 2
// CHECK-NEXT: 0: 0.5 0.5
// Vectors of head 0: (1, 2), (3, 4); of head 1: (5, 6), (7, 8). Means over tokens of each
// channel 2, 3 and 6, 7; over both 2.5 and 6.5.
// CHECK:      %channels = kvc.broadcast: kv_heads 2, channel 2, past 2
// CHECK-NEXT: 0 0: 2 2
// CHECK-NEXT: 0 1: 3 3
// CHECK-NEXT: 1 0: 6 6
// CHECK-NEXT: 1 1: 7 7
// CHECK:      %heads = kvc.broadcast: kv_heads 2, past 2
// CHECK-NEXT: 0: 2.5 2.5
// CHECK-NEXT: 1: 6.5 6.5
// A number of each token for each channel: sums 3 7 and 11 15.
// CHECK:      %along = kvc.broadcast: kv_heads 2, channel 2, past 2
// CHECK-NEXT: 0 0: 3 7
// CHECK-NEXT: 0 1: 3 7
// CHECK-NEXT: 1 0: 11 15
// CHECK-NEXT: 1 1: 11 15
// Query heads 0 and 1 read KV head 0, query heads 2 and 3 KV head 1; their logits are 0.
// CHECK:      %joined = arith.addf: query_heads 4, past 2
// CHECK-NEXT: 0: 3 7
// CHECK-NEXT: 1: 3 7
// CHECK-NEXT: 2: 11 15
// CHECK-NEXT: 3: 11 15

//--- forms.mlir
!r = tensor<?x?x?xf32>
!s = tensor<?x?xf32>
kvc.policy @broadcast {
  %two = arith.constant 2 : index
  %half = arith.constant 0.5 : f32
  %count = kvc.broadcast %two : index to tensor<?xi32>
  %scalar = kvc.broadcast %half : f32 to !s
  %k = kvc.vectors key : !r
  %c = kvc.reduce mean tokens %k : !r -> !s
  %channels = kvc.broadcast %c : !s to !r
  %t = kvc.reduce mean channels %k : !r -> !s
  %mean = kvc.reduce mean tokens %t : !s -> tensor<?xf32>
  %heads = kvc.broadcast %mean : tensor<?xf32> to !s
  %sum = kvc.reduce sum channels %k : !r -> !s
  %along = kvc.broadcast %sum along channels : !s to !r
  %1 = arith.addf %channels, %along : !r
  %2 = kvc.reduce sum channels %1 : !r -> !s
  %q = kvc.attention last(%two) logits : !r
  %w = kvc.reduce sum queries %q : !r -> !s
  %joined = arith.addf %sum, %w : !s
  %g = kvc.reduce sum group %joined : !s -> !s
  %3 = arith.addf %2, %heads : !s
  %4 = arith.addf %3, %scalar : !s
  %s = arith.addf %4, %g : !s
  %m = kvc.topk %s, %count : !s, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
//--- in.json
{"k": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "budget": 1,
 "q": [[[0, 0], [0, 0]], [[0, 0], [0, 0]], [[0, 0], [0, 0]], [[0, 0], [0, 0]]]}
