// RUN: kvc-opt %s --split-input-file --pass-pipeline="builtin.module(kvc.policy(kvc-prune-norms,cse))" | FileCheck %s

// A bound for all, exact norms for the best by it, a threshold, exact norms for what
// reaches it as well. What is forced needs no norm.
// CHECK-LABEL: kvc.policy @products
// CHECK: %[[FORCED:.*]] = kvc.topk %[[S:.*]], %{{.*}}
// CHECK-NOT: kvc.projected_norm l1 :
// CHECK: %[[U:.*]] = kvc.projected_norm l1 bound : tensor<?x?xf32>
// CHECK: %[[GU:.*]] = kvc.reduce mean group %[[U]]
// CHECK: %[[SU:.*]] = arith.mulf %[[S]], %[[GU]]
// CHECK: %[[UP:.*]] = arith.maximumf %[[SU]], %{{.*}}
// CHECK: %[[UPPER:.*]] = arith.select %[[FORCED]], %[[INF:.*]], %[[UP]]
// CHECK: %[[FIRST:.*]] = kvc.topk %[[UPPER]], %[[N:.*]] :
// CHECK: %[[WHERE:.*]] = arith.cmpi ult, %[[FORCED]], %[[FIRST]]
// CHECK: kvc.projected_norm l1 where(%[[WHERE]] : tensor<?x?xi1>)
// CHECK: %[[EXACT:.*]] = arith.mulf %[[S]], %{{.*}}
// CHECK: %[[LEAST:.*]] = kvc.reduce min tokens
// CHECK: %[[CAND:.*]] = arith.cmpf uge, %[[UPPER]], %{{.*}}
// CHECK: %[[OTHERS:.*]] = arith.cmpi ult, %[[FIRST]], %[[CAND]]
// CHECK: %[[WHERE2:.*]] = arith.cmpi ult, %[[FORCED]], %[[OTHERS]]
// CHECK: kvc.projected_norm l1 where(%[[WHERE2]] : tensor<?x?xi1>)
// CHECK: arith.select %[[FIRST]], %[[EXACT]], %{{.*}}
// CHECK: %[[SCORE:.*]] = arith.select %[[FORCED]], %[[INF]], %{{.*}}
// CHECK: kvc.topk %[[SCORE]], %[[N]]
kvc.policy @products {
  %half = kvc.fraction "0.5"
  %s = kvc.norm l2 key : tensor<?x?xf32>
  %norms = kvc.projected_norm l1 : tensor<?x?xf32>
  %n = kvc.reduce mean group %norms : tensor<?x?xf32> -> tensor<?x?xf32>
  %b = kvc.allocate uniform : tensor<?xi32>
  %few = kvc.scale_count %b by(%half) : tensor<?xi32>
  %first = kvc.topk %s, %few : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %p = arith.mulf %s, %n : tensor<?x?xf32>
  %inf = arith.constant 0x7F800000 : f32
  %infs = kvc.broadcast %inf : f32 to tensor<?x?xf32>
  %score = arith.select %first, %infs, %p : tensor<?x?xi1>, tensor<?x?xf32>
  %kept = kvc.topk %score, %b : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}

// -----

// Not where the norm is more than a factor of what is ranked.
// CHECK-LABEL: kvc.policy @sum
// CHECK: kvc.projected_norm l1 :
// CHECK-NOT: bound
kvc.policy @sum {
  %s = kvc.norm l2 key : tensor<?x?xf32>
  %norms = kvc.projected_norm l1 : tensor<?x?xf32>
  %n = kvc.reduce mean group %norms : tensor<?x?xf32> -> tensor<?x?xf32>
  %p = arith.addf %s, %n : tensor<?x?xf32>
  %b = kvc.allocate uniform : tensor<?xi32>
  %kept = kvc.topk %p, %b : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept : tensor<?x?xi1>
}
