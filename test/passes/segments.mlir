// RUN: kvc-opt %s --split-input-file --pass-pipeline="builtin.module(kvc.policy(kvc-infer-axes,kvc-form-kernels))" 2>/dev/null | FileCheck %s

// Vectors of segments are computed by the kernel that reduces them; what is ranked in
// the segment is staged. The next segment of a result is another kernel's.
// CHECK-LABEL: kvc.policy @one_kernel
// CHECK: %[[A:.*]] = kvc.kernel segments "segments0"()
// CHECK: kvc.vectors
// CHECK: kvc.segment minmax next
// CHECK: kvc.reduce std channels
// CHECK: kvc.store
// CHECK: kvc.segment rank
// CHECK: kvc.kernel segments "segments1"(%[[A]])
// CHECK-NOT: kvc.store
// CHECK: kvc.segment max next
// CHECK: kvc.kernel spans
kvc.policy @one_kernel {
  %l = arith.constant 64 : index
  %m = arith.constant 32 : index
  %k = kvc.vectors key : tensor<?x?x?xf32>
  %y = kvc.segment minmax next %k length(%l) from(%m) : tensor<?x?x?xf32>
  %z = kvc.reduce std channels %y : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %r = kvc.segment rank %z length(%l) from(%m) : tensor<?x?xf32>
  %s = kvc.segment max next %r length(%l) from(%m) : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %t = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %t : tensor<?x?xi1>
}

// -----

// Another cut is another kernel.
// CHECK-LABEL: kvc.policy @two_cuts
// CHECK: kvc.kernel segments "segments0"
// CHECK: kvc.kernel segments "segments1"
kvc.policy @two_cuts {
  %l = arith.constant 64 : index
  %m = arith.constant 32 : index
  %k = kvc.vectors key : tensor<?x?x?xf32>
  %y = kvc.segment max %k length(%l) from(%m) : tensor<?x?x?xf32>
  %z = kvc.reduce max channels %y : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %s = kvc.segment rank %z length(%m) from(%m) : tensor<?x?xf32>
  %c = kvc.allocate uniform : tensor<?xi32>
  %t = kvc.topk %s, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %t : tensor<?x?xi1>
}
