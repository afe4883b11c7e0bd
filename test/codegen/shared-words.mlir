// LLVM reads three words of shared memory as four where they are aligned, so an array takes whole multiples of
// 16 bytes: here numbers of a group of three.
// RUN: kvc-opt %s --emit=ptx --chip=sm_90 --shape head_dim=1,group=3,dtype=f32 | FileCheck %s
// RUN: %build/bin/random_policies --file %s --case kv=1,group=3,head_dim=1,dtype=f32,keys=random,special=none,layers=1,data=301101,seq=2:1 --target ptx
// CHECK: .shared .align 16 .b8 __wg_random_spans0_{{.*}}[8192];
// CHECK: .shared .align 16 .b8 __wg_random_spans0_{{.*}}[16];
// CHECK: ld.shared.v4.b32 {{.*}}[__wg_random_spans0_
kvc.policy @random {
  %0 = kvc.norm  l2  key : tensor<?x?xf32>
  %1 = kvc.projected_norm  l1 : tensor<?x?xf32>
  %2 = kvc.reduce  std  tokens %1 : tensor<?x?xf32> -> tensor<?xf32>
  %3 = kvc.broadcast %2 : tensor<?xf32> to tensor<?x?xf32>
  %4 = kvc.reduce  sum  group %3 : tensor<?x?xf32> -> tensor<?x?xf32>
  %cst = arith.constant 1.000000e+02 : f32
  %5 = kvc.count_mass %4 all_but(%cst) : tensor<?x?xf32> -> tensor<?xi32>
  %6 = kvc.topk %0, %5 : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %6  : tensor<?x?xi1>
}
