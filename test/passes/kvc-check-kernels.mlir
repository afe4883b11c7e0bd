// RUN: kvc-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(kvc.policy(kvc-check-kernels))"

// KernelOp C4, one rule each. What the reader of the text finds first is in
// test/codegen/fused-text.test.
kvc.policy @no_axes {
  %0 = kvc.kernel columns "a"() : () -> tensor<?x?xf32> {
    // expected-error @+1 {{tensors of level fused have their axes, got 'tensor<?x?xf32>'}}
    %n = kvc.norm l2 key : tensor<?x?xf32>
    kvc.yield %n : tensor<?x?xf32>
  }
  kvc.done
}

// -----

!row = tensor<1x?xf32, #kvc.axes<one_head, past>>
kvc.policy @fill {
  %0 = kvc.kernel columns "a"() : () -> !row {
    // expected-error @+1 {{is a kvc.broadcast of a constant at level fused}}
    %n = kvc.fill 1.0 : !row
    kvc.yield %n : !row
  }
  kvc.done
}

// -----

!row = tensor<1xf32, #kvc.axes<one_head>>
kvc.policy @dense {
  %0 = kvc.kernel columns "a"() : () -> !row {
    // expected-error @+1 {{a tensor is made by an op of kvc or elementwise from others, got arith.constant}}
    %n = arith.constant dense<1.0> : !row
    kvc.yield %n : !row
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!q = tensor<?x?xf32, #kvc.axes<query_heads, past>>
kvc.policy @prepared_norm {
  %0 = kvc.kernel columns "a"() : () -> !s {
    %n = kvc.norm l2 key : !s
    kvc.yield %n : !s
  }
  %1 = kvc.kernel columns "b"(%0) : (!s) -> !q {
  ^bb0(%x: !s):
    // expected-error @+1 {{only a bound has a quadratic form}}
    %n = kvc.projected_norm l1 gram(%x : !s) : !q
    kvc.yield %n : !q
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!m = tensor<?x?xi1, #kvc.axes<kv_heads, past>>
!q = tensor<?x?xf32, #kvc.axes<query_heads, past>>
kvc.policy @marked {
  %0 = kvc.kernel columns "a"() : () -> !m {
    %n = kvc.norm l2 key : !s
    %m = arith.cmpf ogt, %n, %n : !s
    kvc.yield %m : !m
  }
  %1 = kvc.kernel norms "b"(%0) : (!m) -> !q {
  ^bb0(%m: !m):
    // expected-error @+1 {{marks that are not per query head, and only they, need the list of the marked tokens and its length as arguments of the kernel}}
    %n = kvc.projected_norm l1 where(%m : !m) : !q
    kvc.yield %n : !q
  }
  kvc.done
}

// -----

!q = tensor<?x?xf32, #kvc.axes<query_heads, past>>
kvc.policy @bound {
  %1 = kvc.kernel columns "a"() : () -> !q {
    // expected-error @+1 {{a bound needs the matrix and the sums of a gram kernel as 'gram' of the kernel}}
    %n = kvc.projected_norm l1 bound : !q
    kvc.yield %n : !q
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!m = tensor<?x?xi1, #kvc.axes<kv_heads, past>>
kvc.policy @list {
  %0 = kvc.kernel columns "a"() : () -> !s {
    %n = kvc.norm l2 key : !s
    %m = arith.cmpf oeq, %n, %n : !s
    // expected-error @+1 {{'kvc.list' op must be a result of the kernel}}
    %i, %c = kvc.list %m : !m -> tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
    kvc.yield %n : !s
  }
  kvc.done
}

// -----

!g = tensor<?x?x?xf32, #kvc.axes<query_heads, channel, channel>>
!p = tensor<?x?x2xf32, #kvc.axes<query_heads, channel, pair>>
kvc.policy @own_kernel {
  %0:2 = kvc.kernel columns "a"() : () -> (!g, !p) {
    // expected-error @+1 {{'kvc.gram' op needs a kernel of its own, got one of kind columns}}
    %m, %s = kvc.gram : !g, !p
    kvc.yield %m, %s : !g, !p
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
kvc.policy @one_op {
  // expected-error @+1 {{of kind gram must hold one op of that kind and yield what it makes}}
  %0 = kvc.kernel gram "a"() : () -> !s {
    %n = kvc.norm l2 key : !s
    kvc.yield %n : !s
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!g = tensor<?x?x?xf32, #kvc.axes<query_heads, channel, channel>>
!p = tensor<?x?x2xf32, #kvc.axes<query_heads, channel, pair>>
kvc.policy @another_op {
  %0:2 = kvc.kernel gram "a"() : () -> (!g, !p) {
    %m, %s = kvc.gram : !g, !p
    // expected-error @+1 {{'kvc.norm' op has no place in a kernel of kind gram}}
    %n = kvc.norm l2 key : !s
    kvc.yield %m, %s : !g, !p
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!m = tensor<?x?xi1, #kvc.axes<kv_heads, past>>
!i = tensor<?x?xi32, #kvc.axes<kv_heads, kept>>
!c = tensor<?xi32, #kvc.axes<kv_heads>>
kvc.policy @computed_list {
  %0 = kvc.kernel columns "a"() : () -> !s {
    %n = kvc.norm l2 key : !s
    kvc.yield %n : !s
  }
  %1:2 = kvc.kernel spans "b"(%0) : (!s) -> (!i, !c) {
  ^bb0(%x: !s):
    %m = arith.cmpf ord, %x, %x : !s
    %i, %c = kvc.list %m : !m -> !i, !c
    kvc.yield %i, %c : !i, !c
  }
  kvc.kernel compact "c"(%1#0, %0) : (!i, !s) -> () {
  ^bb0(%x: !i, %w: !s):
    %twice = arith.addi %x, %x : !i
    // expected-error @+1 {{'kvc.merge' op reads the first arguments of the kernel}}
    kvc.merge %twice weight(%w) : !i, !s
    kvc.yield
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
kvc.policy @stored_argument {
  %0 = kvc.kernel columns "a"() : () -> !s {
    %n = kvc.norm l2 key : !s
    kvc.yield %n : !s
  }
  %1 = kvc.kernel columns "b"(%0) : (!s) -> !s {
  ^bb0(%x: !s):
    // expected-error @+1 {{'kvc.yield' op cannot store a value of a columns kernel, got 'tensor<?x?xf32, #kvc.axes<kv_heads, past>>'}}
    kvc.yield %x : !s
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
kvc.policy @no_segment {
  // expected-error @+1 {{of kind segments must hold a kvc.segment}}
  %0 = kvc.kernel segments "a"() : () -> !s {
    %c = arith.constant 1.0 : f32
    %n = kvc.broadcast %c : f32 to !s
    kvc.yield %n : !s
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!m = tensor<?x?xi1, #kvc.axes<kv_heads, past>>
!i = tensor<?x?xi32, #kvc.axes<kv_heads, kept>>
!c = tensor<?xi32, #kvc.axes<kv_heads>>
kvc.policy @lists_first {
  %0 = kvc.kernel columns "a"() : () -> !s {
    %n = kvc.norm l2 key : !s
    kvc.yield %n : !s
  }
  %1:3 = kvc.kernel spans "b"(%0) : (!s) -> (!i, !c, !m) {
  ^bb0(%x: !s):
    %m = arith.cmpf ord, %x, %x : !s
    %i, %c = kvc.list_kept %m : !m -> !i, !c
    kvc.yield %i, %c, %m : !i, !c, !m
  }
  // expected-error @+1 {{must read the lists that the kernel in front of it yields last}}
  kvc.kernel compact "c"(%1#0, %1#1) : (!i, !c) -> () {
  ^bb0(%x: !i, %n: !c):
    kvc.compact %x, %n : !i, !c
    kvc.yield
  }
  kvc.done
}

// -----

kvc.policy @between {
  // expected-error @+1 {{'arith.constant' op has no place between kernels}}
  %c = arith.constant 1 : index
  kvc.done
}

// -----

!v = tensor<?x?x?xf32, #kvc.axes<kv_heads, channel, past>>
!w = tensor<1x?x?xf32, #kvc.axes<one_head, channel, past>>
!p = tensor<?x?x?xf32, #kvc.axes<kv_heads, split, channel>>
kvc.policy @parts_of_one_head {
  %0 = kvc.kernel parts "a"() : () -> !p {
    %v = kvc.vectors key : !v
    %w = kvc.reduce mean heads %v : !v -> !w
    // expected-error @+1 {{reduces numbers of heads or vectors per KV head, got 'tensor<1x?x?xf32, #kvc.axes<one_head, channel, past>>'}}
    %p = kvc.reduce_part mean %w : !w -> !p
    kvc.yield %p : !p
  }
  kvc.done
}

// -----

!v = tensor<?x?x?xf32, #kvc.axes<kv_heads, channel, past>>
!p = tensor<?x?x?xf32, #kvc.axes<kv_heads, split, channel>>
!d = tensor<?x?xf32, #kvc.axes<kv_heads, channel>>
kvc.policy @parts_of_the_kernel {
  %0 = kvc.kernel rows "a"() : () -> !d {
    %v = kvc.vectors key : !v
    %p = kvc.reduce_part mean %v : !v -> !p
    // expected-error @+1 {{must read what kvc.reduce_part has made}}
    %d = kvc.combine_parts mean %p : !p -> !d
    kvc.yield %d : !d
  }
  kvc.done
}

// -----

// Spans are other blocks' work: what they have made is read by a later kernel.
!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!p = tensor<?x?xf32, #kvc.axes<kv_heads, split>>
!h = tensor<?xf32, #kvc.axes<kv_heads>>
kvc.policy @spans_of_the_kernel {
  %0:2 = kvc.kernel spans "a"() : () -> (!p, !h) {
    %n = kvc.norm l2 key : !s
    %p = kvc.reduce_part sum %n : !s -> !p
    // expected-error @+1 {{must read what kvc.reduce_part has made}}
    %t = kvc.combine_parts sum %p : !p -> !h
    kvc.yield %p, %t : !p, !h
  }
  kvc.done
}

// -----

// A maximum and a sum below it are of the same parts.
!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!p = tensor<?x?xf32, #kvc.axes<kv_heads, split>>
!h = tensor<?xf32, #kvc.axes<kv_heads>>
kvc.policy @parts_apart {
  %0:3 = kvc.kernel columns "a"() : () -> (!p, !p, !p) {
    %n = kvc.norm l2 key : !s
    %p = kvc.reduce_part max %n : !s -> !p
    %m, %l = kvc.exp_sum_part %n : !s -> !p, !p
    kvc.yield %p, %m, %l : !p, !p, !p
  }
  %1 = kvc.kernel spans "b"(%0#0, %0#2) : (!p, !p) -> !h {
  ^bb0(%p: !p, %l: !p):
    // expected-error @+1 {{must read what kvc.exp_sum_part has made}}
    %most, %sum = kvc.combine_exp_sums %p, %l : !p, !p -> !h, !h
    kvc.yield %sum : !h
  }
  kvc.done
}

// -----

// Where tiles of a columns kernel overlap, it has some tokens twice.
!r = tensor<?x4x?xf32, #kvc.axes<query_heads, query, past>>
!q = tensor<?x?xf32, #kvc.axes<query_heads, past>>
!p = tensor<?x?xf32, #kvc.axes<query_heads, split>>
kvc.policy @parts_of_pooled_rows {
  %0 = kvc.kernel columns "a"() : () -> !p {
    %w = arith.constant 4 : index
    %width = arith.constant 3 : index
    %a = kvc.attention last(%w) logits : !r
    %b = kvc.pool mean %a width(%width) : !r
    %m = kvc.reduce mean queries %b : !r -> !q
    // expected-error @+1 {{and what it reads cannot be computed in one columns kernel}}
    %p = kvc.reduce_part sum %m : !q -> !p
    kvc.yield %p : !p
  }
  kvc.done
}

// -----

// So are counts, means and squares, and in this order.
!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!p = tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>
!h = tensor<?xf32, #kvc.axes<kv_heads>>
kvc.policy @deviations_apart {
  %0:3 = kvc.kernel columns "a"() : () -> (!p, !p, !p) {
    %x = kvc.norm l2 key : !s
    %n, %m, %q = kvc.deviation_part %x : !s -> !p, !p, !p
    kvc.yield %n, %m, %q : !p, !p, !p
  }
  %1 = kvc.kernel spans "b"(%0#0, %0#2, %0#1) : (!p, !p, !p) -> !h {
  ^bb0(%n: !p, %m: !p, %q: !p):
    // expected-error @+1 {{must read what kvc.deviation_part has made}}
    %d = kvc.combine_deviations %n, %m, %q : !p, !p, !p -> !h
    kvc.yield %d : !h
  }
  kvc.done
}

// -----

// Rows that wait for all heads in shared memory leave room for few tokens.
!r = tensor<?x96x?xf32, #kvc.axes<query_heads, query, past>>
!o = tensor<1x96x?xf32, #kvc.axes<one_head, query, past>>
!q = tensor<?x?xf32, #kvc.axes<query_heads, past>>
!s = tensor<1x?xf32, #kvc.axes<one_head, past>>
!p = tensor<?x?x2xf32, #kvc.axes<query_heads, split, pair>>
kvc.policy @parts_beside_many_rows {
  %0:4 = kvc.kernel columns "a"() : () -> (!s, !p, !p, !p) {
    %w = arith.constant 96 : index
    %a = kvc.attention last(%w) logits : !r
    %most = kvc.reduce max heads %a : !r -> !o
    %i = kvc.reduce mean queries %most : !o -> !s
    %m = kvc.reduce mean queries %a : !r -> !q
    // expected-error @+1 {{and what it reads cannot be computed in one columns kernel}}
    %n, %mean, %squares = kvc.deviation_part %m : !q -> !p, !p, !p
    kvc.yield %i, %n, %mean, %squares : !s, !p, !p, !p
  }
  kvc.done
}

// -----

// What is one for all heads has no spans of its own.
!s = tensor<1x?xf32, #kvc.axes<one_head, past>>
!p = tensor<1x?xf32, #kvc.axes<one_head, split>>
kvc.policy @spans_of_one_head {
  %0 = kvc.kernel spans "a"() : () -> !p {
    %n = kvc.position : tensor<1x?xi32, #kvc.axes<one_head, past>>
    %f = arith.sitofp %n : tensor<1x?xi32, #kvc.axes<one_head, past>> to !s
    // expected-error @+1 {{reduces numbers of heads or vectors per KV head, got 'tensor<1x?xf32, #kvc.axes<one_head, past>>'}}
    %p = kvc.reduce_part sum %f : !s -> !p
    kvc.yield %p : !p
  }
  kvc.done
}

// -----

!s = tensor<1x?xf32, #kvc.axes<one_head, past>>
!p = tensor<1x?xf32, #kvc.axes<one_head, split>>
kvc.policy @exponentials_of_one_head {
  %0:2 = kvc.kernel spans "a"() : () -> (!p, !p) {
    %n = kvc.position : tensor<1x?xi32, #kvc.axes<one_head, past>>
    %f = arith.sitofp %n : tensor<1x?xi32, #kvc.axes<one_head, past>> to !s
    // expected-error @+1 {{reduces numbers of heads, got 'tensor<1x?xf32, #kvc.axes<one_head, past>>'}}
    %m, %l = kvc.exp_sum_part %f : !s -> !p, !p
    kvc.yield %m, %l : !p, !p
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!m = tensor<?x?xi1, #kvc.axes<kv_heads, past>>
!c = tensor<?xi32, #kvc.axes<kv_heads>>
kvc.policy @no_candidates {
  %0 = kvc.kernel columns "a"() : () -> !s {
    %n = kvc.norm l2 key : !s
    kvc.yield %n : !s
  }
  %1 = kvc.kernel spans "b"(%0) : (!s) -> !m {
  ^bb0(%x: !s):
    %n = kvc.allocate uniform : !c
    // expected-error @+1 {{'kvc.topk' op needs the candidates (their number, second digits, what is above them, the threshold's place, tokens and keys) and the first digits as arguments of the kernel}}
    %m = kvc.topk %x, %n : !s, !c -> !m
    kvc.yield %m : !m
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!m = tensor<?x?xi1, #kvc.axes<kv_heads, past>>
!c = tensor<?xi32, #kvc.axes<kv_heads>>
!b = tensor<?x2048xi32, #kvc.axes<kv_heads, bin>>
!a = tensor<?x?xi32, #kvc.axes<kv_heads, split>>
!p = tensor<?x2xi32, #kvc.axes<kv_heads, pair>>
!l = tensor<?x?xi32, #kvc.axes<kv_heads, kept>>
kvc.policy @no_prefixes {
  %0 = kvc.kernel columns "a"() : () -> !s {
    %n = kvc.norm l2 key : !s
    kvc.yield %n : !s
  }
  %1 = kvc.kernel spans "b"(%0) : (!s) -> !b {
  ^bb0(%x: !s):
    %d = kvc.count_digits %x : !s -> !b
    kvc.yield %d : !b
  }
  %2:6 = kvc.kernel spans "c"(%0, %1) : (!s, !b) -> (!c, !b, !a, !p, !l, !l) {
  ^bb0(%x: !s, %d: !b):
    %n = kvc.allocate uniform : !c
    %f, %e, %a, %p, %t, %k = kvc.list_candidates %x, %n digits(%d) : !s, !c, !b -> !c, !b, !a, !p, !l, !l
    kvc.yield %f, %e, %a, %p, %t, %k : !c, !b, !a, !p, !l, !l
  }
  %3 = kvc.kernel spans "d"(%0, %2#0, %2#1, %2#2, %2#3, %2#4, %2#5, %1) : (!s, !c, !b, !a, !p, !l, !l, !b) -> !m {
  ^bb0(%x: !s, %f: !c, %e: !b, %a: !a, %p: !p, %t: !l, %k: !l, %d: !b):
    %n = kvc.allocate uniform : !c
    // expected-error @+1 {{'kvc.topk' op needs what kvc.key_prefix has made as an argument of the kernel, behind the candidates}}
    %m = kvc.topk %x, %n candidates(%f, %e, %a, %p, %t, %k, %d : !c, !b, !a, !p, !l, !l, !b) : !s, !c -> !m
    kvc.yield %m : !m
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!c = tensor<?xi32, #kvc.axes<kv_heads>>
kvc.policy @no_candidates_of_all_heads {
  %0 = kvc.kernel columns "a"() : () -> !s {
    %n = kvc.norm l2 key : !s
    kvc.yield %n : !s
  }
  %1 = kvc.kernel sequence "b"(%0) : (!s) -> !c {
  ^bb0(%x: !s):
    %f = kvc.fraction "0.2"
    %n = kvc.allocate uniform : !c
    // expected-error @+1 {{'kvc.allocate_heads' op needs the candidates}}
    %h = kvc.allocate_heads %x base(%n) safeguard(%f) : !s, !c
    kvc.yield %h : !c
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!b = tensor<?x2048xi32, #kvc.axes<kv_heads, bin>>
!c = tensor<?xi32, #kvc.axes<kv_heads>>
!a = tensor<?x?xi32, #kvc.axes<kv_heads, split>>
!p = tensor<?x2xi32, #kvc.axes<kv_heads, pair>>
!l = tensor<?x?xi32, #kvc.axes<kv_heads, kept>>
kvc.policy @digits_of_the_kernel {
  %0 = kvc.kernel columns "a"() : () -> !s {
    %n = kvc.norm l2 key : !s
    kvc.yield %n : !s
  }
  %1:7 = kvc.kernel spans "b"(%0) : (!s) -> (!b, !c, !b, !a, !p, !l, !l) {
  ^bb0(%x: !s):
    %n = kvc.allocate uniform : !c
    %d = kvc.count_digits %x : !s -> !b
    // expected-error @+1 {{'kvc.list_candidates' op must read what kvc.count_digits has made}}
    %f, %e, %a, %p, %t, %k = kvc.list_candidates %x, %n digits(%d) : !s, !c, !b -> !c, !b, !a, !p, !l, !l
    kvc.yield %d, %f, %e, %a, %p, %t, %k : !b, !c, !b, !a, !p, !l, !l
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!b = tensor<?x2048xi32, #kvc.axes<kv_heads, bin>>
kvc.policy @never_cleared {
  %0 = kvc.kernel spans "a"() : () -> !b {
    %one = arith.constant 1.0 : f32
    %x = kvc.broadcast %one : f32 to !s
    // expected-error @+1 {{'kvc.count_digits' op adds to what a kernel in front must have set to 0, and there is none}}
    %d = kvc.count_digits %x : !s -> !b
    kvc.yield %d : !b
  }
  kvc.done
}

// -----

// What rows carry is a KV head's; each number has a name.
!s = tensor<?x?xf32, #kvc.axes<query_heads, past>>
!i = tensor<?x?xi32, #kvc.axes<kv_heads, kept>>
!c = tensor<?xi32, #kvc.axes<kv_heads>>
!m = tensor<?x?xi1, #kvc.axes<query_heads, past>>
kvc.policy @carried_of_query_heads {
  %0 = kvc.kernel columns "a"() : () -> !s {
    %n = kvc.projected_norm l1 : !s
    kvc.yield %n : !s
  }
  %1:2 = kvc.kernel spans "b"(%0) : (!s) -> (!i, !c) {
  ^bb0(%x: !s):
    %m = arith.cmpf ord, %x, %x : !s
    %i, %c = kvc.list %m : !m -> !i, !c
    kvc.yield %i, %c : !i, !c
  }
  kvc.kernel compact "c"(%1#0, %1#1, %0) : (!i, !c, !s) -> () {
  ^bb0(%i: !i, %n: !c, %x: !s):
    // expected-error @+1 {{rows carry what KV heads have of the past, got 'tensor<?x?xf32, #kvc.axes<query_heads, past>>'}}
    kvc.compact %i, %n carry("norm" = %x : !s) : !i, !c
    kvc.yield
  }
  kvc.done
}

// -----

!s = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!i = tensor<?x?xi32, #kvc.axes<kv_heads, kept>>
!c = tensor<?xi32, #kvc.axes<kv_heads>>
!m = tensor<?x?xi1, #kvc.axes<kv_heads, past>>
kvc.policy @carried_without_names {
  %0 = kvc.kernel columns "a"() : () -> !s {
    %n = kvc.norm l2 key : !s
    kvc.yield %n : !s
  }
  %1:2 = kvc.kernel spans "b"(%0) : (!s) -> (!i, !c) {
  ^bb0(%x: !s):
    %m = arith.cmpf ord, %x, %x : !s
    %i, %c = kvc.list %m : !m -> !i, !c
    kvc.yield %i, %c : !i, !c
  }
  kvc.kernel compact "c"(%1#0, %1#1, %0) : (!i, !c, !s) -> () {
  ^bb0(%i: !i, %n: !c, %x: !s):
    // expected-error @+1 {{must have a name for each number that rows carry}}
    "kvc.compact"(%i, %n, %x) {names = ["a", "b"]} : (!i, !c, !s) -> ()
    kvc.yield
  }
  kvc.done
}

// -----

// What scratch has room for is in the types: extents of queries agree.
!partial = tensor<?x16x?x2xf32, #kvc.axes<query_heads, query, split, pair>>
kvc.policy @statistics_of_others {
  %0 = kvc.kernel statistics "a"() : () -> !partial {
    %w = arith.constant 32 : index
    // expected-error @+1 {{rows must have the extent of 'last', got 'tensor<?x16x?x2xf32}}
    %p = kvc.row_statistics last(%w) : !partial
    kvc.yield protect_last(%w) %p : !partial
  }
  kvc.done
}

// -----

!partial = tensor<?x2000x?x2xf32, #kvc.axes<query_heads, query, split, pair>>
kvc.policy @statistics_of_too_many {
  %0 = kvc.kernel statistics "a"() : () -> !partial {
    %w = arith.constant 2000 : index
    // expected-error @+1 {{last must be a constant of 1 to 1024 after parameters are bound, got 2000}}
    %p = kvc.row_statistics last(%w) : !partial
    kvc.yield protect_last(%w) %p : !partial
  }
  kvc.done
}

// -----

!lse = tensor<?x16xf32, #kvc.axes<query_heads, query>>
kvc.policy @every_query {
  %0 = kvc.kernel statistics "a"() : () -> !lse {
    // expected-error @+1 {{has a row for every query, whose extent is ?, got 'tensor<?x16xf32}}
    %l = kvc.row_log_sum_exp : !lse
    kvc.yield %l : !lse
  }
  kvc.done
}

// -----

!partial = tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>>
!lse = tensor<?x16xf32, #kvc.axes<query_heads, query>>
kvc.policy @combined {
  %0 = kvc.kernel statistics "a"() : () -> !partial {
    %w = arith.constant 32 : index
    %p = kvc.row_statistics last(%w) : !partial
    kvc.yield protect_last(%w) %p : !partial
  }
  %1 = kvc.kernel combine "b"(%0) : (!partial) -> !lse {
  ^bb0(%p: !partial):
    // expected-error @+1 {{rows must have the extent of what they are computed from, got 'tensor<?x16xf32}}
    %l = kvc.combine_statistics %p : !partial -> !lse
    kvc.yield %l : !lse
  }
  kvc.done
}

// -----

!partial = tensor<?x16x?x2xf32, #kvc.axes<query_heads, query, split, pair>>
!lse = tensor<?x16xf32, #kvc.axes<query_heads, query>>
!rows = tensor<?x32x?xf32, #kvc.axes<query_heads, query, past>>
!score = tensor<?x?xf32, #kvc.axes<query_heads, past>>
kvc.policy @fewer_sums {
  %0 = kvc.kernel statistics "a"() : () -> !partial {
    %w = arith.constant 16 : index
    %p = kvc.row_statistics last(%w) : !partial
    kvc.yield protect_last(%w) %p : !partial
  }
  %1 = kvc.kernel combine "b"(%0) : (!partial) -> !lse {
  ^bb0(%p: !partial):
    %l = kvc.combine_statistics %p : !partial -> !lse
    kvc.yield %l : !lse
  }
  %2 = kvc.kernel columns "c"() lse(%1) : (!lse) -> !score {
  ^bb0(%l: !lse):
    %w = arith.constant 32 : index
    // expected-error @+1 {{the log-sum-exp must be that of its queries or more, got 'tensor<?x16xf32}}
    %r = kvc.attention last(%w) lse(%l : !lse) : !rows
    %s = kvc.reduce mean queries %r : !rows -> !score
    kvc.yield protect_last(%w) %s : !score
  }
  kvc.done
}

// -----

!score = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
kvc.policy @two_pasts {
  %0 = kvc.kernel columns "a"() : () -> !score {
    %w = arith.constant 32 : index
    %n = kvc.norm l2 key : !score
    kvc.yield protect_last(%w) %n : !score
  }
  %1 = kvc.kernel columns "b"() : () -> !score {
    %w = arith.constant 16 : index
    %n = kvc.norm l2 value : !score
    // expected-error @+1 {{must protect what the kernels in front do, got 16 and 32}}
    kvc.yield protect_last(%w) %n : !score
  }
  kvc.done
}

// -----

!score = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
kvc.policy @two_pasts_of_a_budget {
  %0 = kvc.kernel columns "a"() : () -> !score {
    %b = kvc.budget
    %two = arith.constant 2 : index
    %w = arith.divui %b, %two : index
    %n = kvc.norm l2 key : !score
    kvc.yield protect_last(%w) %n : !score
  }
  %1 = kvc.kernel columns "b"() : () -> !score {
    %two = arith.constant 2 : index
    %b = kvc.budget
    %w = arith.divui %b, %two : index
    %n = kvc.norm l1 key : !score
    kvc.yield protect_last(%w) %n : !score
  }
  %2 = kvc.kernel columns "c"() : () -> !score {
    %b = kvc.budget
    %five = arith.constant 5 : index
    %w = arith.divui %b, %five : index
    %n = kvc.norm l2 value : !score
    // expected-error @+1 {{must protect what the kernels in front do, got a value that is known at launch only and one made in another way}}
    kvc.yield protect_last(%w) %n : !score
  }
  kvc.done
}

// -----

// What heads have in common is made by a walk over all of them, whatever it is made of.
!rows = tensor<?x?xi32, #kvc.axes<kv_heads, past>>
!floats = tensor<?x?xf32, #kvc.axes<kv_heads, past>>
!row = tensor<1x?xf32, #kvc.axes<one_head, past>>
kvc.policy @heads_in_a_spans_kernel {
  %0 = kvc.kernel spans "a"() : () -> !row {
    %n = kvc.position row : !rows
    %f = arith.sitofp %n : !rows to !floats
    // expected-error @+1 {{and what it reads cannot be computed in one spans kernel}}
    %m = kvc.reduce max heads %f : !floats -> !row
    kvc.yield %m : !row
  }
  kvc.done
}
