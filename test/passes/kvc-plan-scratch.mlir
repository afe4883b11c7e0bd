// RUN: kvc-opt %policies/snapkv.mlir --emit=fused | FileCheck %s

// Partial statistics die when they are combined; the ranked scores live to the
// end, so that a caller may read them.
// CHECK: kvc.kernel statistics {{.*}}buffers = [#kvc.buffer<0, live = 0 to 1>]
// CHECK: kvc.kernel combine {{.*}}buffers = [#kvc.buffer<1, live = 1 to 2>]
// CHECK: kvc.kernel columns {{.*}}buffers = [#kvc.buffer<2, live = 2 to 3>]
// CHECK: kvc.store {{.*}}buffer = #kvc.buffer<3, live = 3 to 4>
