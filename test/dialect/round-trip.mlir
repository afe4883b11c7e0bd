// RUN: kvc-opt %s | kvc-opt | FileCheck %s
// RUN: kvc-opt %s --mlir-print-op-generic | kvc-opt | FileCheck %s

// Every op of level policy, in its own syntax.
// CHECK-LABEL: kvc.policy @all_ops
kvc.policy @all_ops {
  // CHECK: kvc.param "window" = 32 : index
  %w = kvc.param "window" = 32 : index
  // CHECK: kvc.param "alpha" = 5.000000e-01 : f32
  %alpha = kvc.param "alpha" = 0.5 : f32
  // CHECK: kvc.budget
  %b = kvc.budget
  // CHECK: kvc.length
  %t = kvc.length
  // CHECK: kvc.attention last(%{{.*}}) : tensor<?x?x?xf32>
  %rows = kvc.attention last(%w) : tensor<?x?x?xf32>
  // CHECK: kvc.attention last(%{{.*}}) rounded : tensor<?x?x?xf32>
  %r2 = kvc.attention last(%w) rounded : tensor<?x?x?xf32>
  // CHECK: kvc.norm l1 value : tensor<?x?xf32>
  %n = kvc.norm l1 value : tensor<?x?xf32>
  // CHECK: kvc.position : tensor<?x?xi32>
  %p = kvc.position : tensor<?x?xi32>
  // CHECK: kvc.broadcast %{{.*}} : f32 to tensor<?x?xf32>
  %a = kvc.broadcast %alpha : f32 to tensor<?x?xf32>
  // CHECK: kvc.reduce mean queries %{{.*}} : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %m = kvc.reduce mean queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // CHECK: kvc.reduce max group %{{.*}} : tensor<?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce max group %m : tensor<?x?xf32> -> tensor<?x?xf32>
  // CHECK: kvc.reduce std tokens %{{.*}} : tensor<?x?xf32> -> tensor<?xf32>
  %s = kvc.reduce std tokens %g : tensor<?x?xf32> -> tensor<?xf32>
  // CHECK: kvc.pool max %{{.*}} width(%{{.*}}) : tensor<?x?xf32>
  %max = kvc.pool max %g width(%w) : tensor<?x?xf32>
  // CHECK: kvc.pool mean %{{.*}} width(%{{.*}}) count_padding : tensor<?x?xf32>
  %avg = kvc.pool mean %g width(%w) count_padding : tensor<?x?xf32>
  // CHECK: kvc.segment rank %{{.*}} length(%{{.*}}) from(%{{.*}}) : tensor<?x?xf32>
  %rank = kvc.segment rank %g length(%w) from(%w) : tensor<?x?xf32>
  // CHECK: kvc.segment max next %{{.*}} length(%{{.*}}) from(%{{.*}}) : tensor<?x?xf32>
  %ahead = kvc.segment max next %g length(%w) from(%w) : tensor<?x?xf32>
  // CHECK: kvc.param "safeguard" = "0.2" : !kvc.fraction
  %f = kvc.param "safeguard" = "0.2" : !kvc.fraction
  // CHECK: kvc.fraction "0.5"
  %h = kvc.fraction "0.5"
  // CHECK: kvc.layer
  %l = kvc.layer
  // CHECK: kvc.layers
  %ll = kvc.layers
  // CHECK: kvc.allocate_layers ratio(%{{.*}}) : tensor<?xi32>
  %al = kvc.allocate_layers ratio(%f) : tensor<?xi32>
  // CHECK: kvc.allocate_heads %{{.*}} base(%{{.*}}) safeguard(%{{.*}}) : tensor<?x?xf32>, tensor<?xi32>
  %ah = kvc.allocate_heads %avg base(%al) safeguard(%f) : tensor<?x?xf32>, tensor<?xi32>
  // CHECK: kvc.scale_count %{{.*}} by(%{{.*}}) : tensor<?xi32>
  %sc = kvc.scale_count %al by(%h) : tensor<?xi32>
  // CHECK: kvc.allocate uniform : tensor<?xi32>
  %c = kvc.allocate uniform : tensor<?xi32>
  // CHECK: kvc.topk %{{.*}}, %{{.*}} : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %k = kvc.topk %avg, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  // CHECK: kvc.keep %{{.*}} protect_last(%{{.*}}) : tensor<?x?xi1>
  kvc.keep %k protect_last(%w) : tensor<?x?xi1>
}

// Ops of level policy that read or make more than scores.
// CHECK-LABEL: kvc.policy @more_ops
kvc.policy @more_ops {
  %w = arith.constant 4 : index
  %f = kvc.fraction "0.5"
  %tau = arith.constant 0.5 : f32
  %b = kvc.budget
  // CHECK: kvc.scale_count %{{.*}} over(%{{.*}}) : index
  %p = kvc.scale_count %b over(%f) : index
  // CHECK: kvc.allocate_table base(%{{.*}}) shared(%{{.*}}) : tensor<?xi32>
  %n = kvc.allocate_table base(%p) shared(%p) : tensor<?xi32>
  // CHECK: kvc.position from_end : tensor<?x?xi32>
  %age = kvc.position from_end : tensor<?x?xi32>
  // CHECK: kvc.position row : tensor<?x?xi32>
  %row = kvc.position row : tensor<?x?xi32>
  // CHECK: kvc.position row from_end : tensor<?x?xi32>
  %behind = kvc.position row from_end : tensor<?x?xi32>
  // CHECK: kvc.fill 0x7F800000 : tensor<?x?xf32>
  %inf = kvc.fill 0x7F800000 : tensor<?x?xf32>
  // CHECK: kvc.norm l2 raw_key : tensor<?x?xf32>
  %raw = kvc.norm l2 raw_key : tensor<?x?xf32>
  // CHECK: kvc.projected_norm l2 : tensor<?x?xf32>
  %l2 = kvc.projected_norm l2 : tensor<?x?xf32>
  // CHECK: kvc.projected_norm l1 bound : tensor<?x?xf32>
  %u = kvc.projected_norm l1 bound : tensor<?x?xf32>
  // CHECK: kvc.kept_layers : tensor<?x?xf32>
  %kept = kvc.kept_layers : tensor<?x?xf32>
  // CHECK: kvc.kept_layers share : tensor<?x?xf32>
  %share = kvc.kept_layers share : tensor<?x?xf32>
  // CHECK: kvc.attention last(%{{.*}}) logits : tensor<?x?x?xf32>
  %z = kvc.attention last(%w) logits : tensor<?x?x?xf32>
  // CHECK: kvc.vectors value : tensor<?x?x?xf32>
  %v = kvc.vectors value : tensor<?x?x?xf32>
  // CHECK: kvc.reduce max tokens %{{.*}} : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %most = kvc.reduce max tokens %v : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // CHECK: kvc.broadcast %{{.*}} along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  %wide = kvc.broadcast %raw along channels : tensor<?x?xf32> to tensor<?x?x?xf32>
  // CHECK: kvc.reduce std channels %{{.*}} : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %s = kvc.reduce std channels %wide : tensor<?x?x?xf32> -> tensor<?x?xf32>
  // CHECK: kvc.count_mass %{{.*}} all_but(%{{.*}}) : tensor<?x?xf32> -> tensor<?xi32>
  %enough = kvc.count_mass %s all_but(%tau) : tensor<?x?xf32> -> tensor<?xi32>
  %sigma = kvc.reduce std tokens %s : tensor<?x?xf32> -> tensor<?xf32>
  // CHECK: kvc.select_heads lowest %{{.*}} count(%{{.*}}) : tensor<?xf32> -> tensor<?xi1>
  %low = kvc.select_heads lowest %sigma count(%w) : tensor<?xf32> -> tensor<?xi1>
  // CHECK: kvc.select_heads highest %{{.*}} count(%{{.*}}) : tensor<?xf32> -> tensor<?x?xi1>
  %high = kvc.select_heads highest %sigma count(%w) : tensor<?xf32> -> tensor<?x?xi1>
  %c = kvc.topk %s, %enough : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  // CHECK: kvc.projected_norm l1 where(%{{.*}} : tensor<?x?xi1>) : tensor<?x?xf32>
  %some = kvc.projected_norm l1 where(%c : tensor<?x?xi1>) : tensor<?x?xf32>
  // CHECK: kvc.nearest %{{.*}} in %{{.*}} of key at_least(%{{.*}}) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
  %d1 = kvc.nearest %high in %c of key at_least(%tau) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
  // CHECK: kvc.nearest %{{.*}} in %{{.*}} of raw_key times value at_least(%{{.*}}) :
  %d2 = kvc.nearest %high in %c of raw_key times value at_least(%tau) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
  // CHECK: kvc.new_queries
  %new = kvc.new_queries
  // CHECK: kvc.row_state "mass" : tensor<?x?xf32>
  %mass = kvc.row_state "mass" : tensor<?x?xf32>
  // CHECK: kvc.keep %{{.*}} merge(%{{.*}}, %{{.*}} : tensor<?x?xi32>, tensor<?x?xf32>) share_positions protect_last(%{{.*}}) carry("mass" = %{{.*}} : tensor<?x?xf32>, "s" = %{{.*}} : tensor<?x?xf32>) : tensor<?x?xi1>
  kvc.keep %c merge(%d2, %s : tensor<?x?xi32>, tensor<?x?xf32>) share_positions protect_last(%w) carry("mass" = %mass : tensor<?x?xf32>, "s" = %s : tensor<?x?xf32>) : tensor<?x?xi1>
}

// What merged caches have.
// CHECK-LABEL: kvc.policy @merged
kvc.policy @merged {
  // CHECK: kvc.since
  %s = kvc.since
  %n = kvc.new_queries
  // CHECK: kvc.attention last(%{{.*}}) members : tensor<?x?x?xf32>
  %a = kvc.attention last(%n) members : tensor<?x?x?xf32>
  %q = kvc.reduce sum queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>
  %g = kvc.reduce mean group %q : tensor<?x?xf32> -> tensor<?x?xf32>
  // CHECK: kvc.reduce max members %{{.*}} : tensor<?x?xf32> -> tensor<?x?xf32>
  %m = kvc.reduce max members %g : tensor<?x?xf32> -> tensor<?x?xf32>
  // CHECK: kvc.count_rows : tensor<?xi32>
  %c = kvc.count_rows : tensor<?xi32>
  // CHECK: kvc.count_rows all : tensor<?xi32>
  %every = kvc.count_rows all : tensor<?xi32>
  %k = kvc.topk %m, %c : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  %tau = arith.constant 0.5 : f32
  %d = kvc.nearest %k in %k of raw_key at_least(%tau) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
  // CHECK: kvc.keep %{{.*}} merge(%{{.*}}, %{{.*}} : tensor<?x?xi32>, tensor<?x?xf32>) at_most(%{{.*}}) : tensor<?x?xi1>
  kvc.keep %k merge(%d, %m : tensor<?x?xi32>, tensor<?x?xf32>) at_most(%s) : tensor<?x?xi1>
}
