// RUN: kvc-opt %policies/snapkv.mlir --emit=fused | FileCheck %s

// Partial statistics die when they are combined; the ranked scores live to the
// end, so that a caller may read them.
// CHECK: kvc.kernel statistics {{.*}}buffers = [#kvc.buffer<0, live = 0 to 1>]
// CHECK: kvc.kernel combine {{.*}}buffers = [#kvc.buffer<1, live = 1 to 2>]
// CHECK: kvc.kernel columns {{.*}}buffers = [#kvc.buffer<2, live = 2 to 3>]
// What blocks add to lives from the kernel on that sets it to 0.
// CHECK: kvc.kernel spans "spans0"{{.*}}buffers = [#kvc.buffer<3, live = 3 to 6>, #kvc.buffer<4, live = 3 to 5>, #kvc.buffer<5, live = 2 to 5>]
// CHECK: kvc.kernel spans "spans1"{{.*}}buffers = [#kvc.buffer<6, live = 3 to 5>, #kvc.buffer<7, live = 3 to 5>, #kvc.buffer<8, live = 3 to 5>, #kvc.buffer<9, live = 4 to 5>, #kvc.buffer<10, live = 4 to 5>, #kvc.buffer<11, live = 4 to 5>]
