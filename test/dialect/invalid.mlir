// RUN: kvc-opt %s --split-input-file --verify-diagnostics

// PolicyOp C1
// expected-error @+1 {{body must end in kvc.keep, got llvm.unreachable}}
kvc.policy @no_keep {
  llvm.unreachable
}

// -----

// BroadcastOp C1
kvc.policy @broadcast_types {
  %c = arith.constant 1 : i32
  // expected-error @+1 {{element types must be equal, got 'i32' and 'f32'}}
  %x = kvc.broadcast %c : i32 to tensor<?x?xf32>
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// BroadcastOp C2
kvc.policy @broadcast_rank {
  %p = kvc.position : tensor<?x?xi32>
  // expected-error @+1 {{cannot broadcast rank 2 to rank 1}}
  %x = kvc.broadcast %p : tensor<?x?xi32> to tensor<?xi32>
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// ReduceOp C1
kvc.policy @reduce_window_rank {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{over queries needs rank 3, got 'tensor<?x?xf32>'}}
  %x = kvc.reduce mean queries %n : tensor<?x?xf32> -> tensor<?xf32>
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// ReduceOp C2
kvc.policy @reduce_result_rank {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{result must have rank 1, got 'tensor<?x?xf32>'}}
  %x = kvc.reduce mean tokens %n : tensor<?x?xf32> -> tensor<?x?xf32>
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// ReduceOp C3
kvc.policy @reduce_std {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{std goes with tokens and channels, got heads}}
  %x = kvc.reduce std heads %n : tensor<?x?xf32> -> tensor<?x?xf32>
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// PoolOp C2
kvc.policy @pool_padding {
  %w = arith.constant 7 : index
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{count_padding goes with mean, got max}}
  %x = kvc.pool max %n width(%w) count_padding : tensor<?x?xf32>
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// SegmentOp C1
kvc.policy @rank_of_vectors {
  %n = arith.constant 64 : index
  %k = kvc.vectors key : tensor<?x?x?xf32>
  // expected-error @+1 {{rank needs rank 2, got 'tensor<?x?x?xf32>'}}
  %x = kvc.segment rank %k length(%n) from(%n) : tensor<?x?x?xf32>
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// ParamOp C1
kvc.policy @param_type {
  // expected-error @+1 {{result #0 must be index or 32-bit float or exact fraction, but got 'i64'}}
  %w = kvc.param "window" = 32 : i64
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// ParamOp C4
kvc.policy @nameless {
  // expected-error @+1 {{name must not be empty nor have '=' in it, got ''}}
  %w = kvc.param "" = 3 : index
  %true = arith.constant true
  %all = kvc.broadcast %true : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// FractionOp C1
kvc.policy @fraction {
  // expected-error @+1 {{must be a decimal of at most 4 places, 0 or more and below 1024, got '1/3'}}
  %f = kvc.fraction "1/3"
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// ReduceOp C1
kvc.policy @reduce_channels_rank {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  // expected-error @+1 {{over channels needs rank 3, got 'tensor<?x?xf32>'}}
  %x = kvc.reduce mean channels %n : tensor<?x?xf32> -> tensor<?xf32>
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// AttentionOp C2
kvc.policy @rounded_logits {
  %w = arith.constant 4 : index
  // expected-error @+1 {{logits are not rounded: they are no weights}}
  %z = kvc.attention last(%w) rounded logits : tensor<?x?x?xf32>
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// ProjectedNormOp C1
kvc.policy @bound_of_l2 {
  // expected-error @+1 {{bound goes with l1 and without where, got l2}}
  %n = kvc.projected_norm l2 bound : tensor<?x?xf32>
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// PolicyOp C2
// expected-error @+1 {{name must be letters, digits and _, not beginning with a digit, got 'snap-kv'}}
kvc.policy @"snap-kv" {
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// PolicyOp C2
// expected-error @+1 {{got '1abc'}}
kvc.policy @"1abc" {
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

kvc.policy @kernel_name {
  // KernelOp C3
  // expected-error @+1 {{name must be letters, digits and _, not beginning with a digit, got 'rows 0'}}
  kvc.kernel compact "rows 0"() : () -> () {
    kvc.yield
  }
  kvc.done
}

// -----

kvc.policy @empty_kernel {
  // expected-error @+1 {{expects a non-empty block}}
  kvc.kernel compact "compact"() : () -> () {
  }
  kvc.done
}

// -----

// expected-error @+1 {{unknown word 'never'}}
kvc.policy @plan attributes {plan = #kvc.plan<queries = 0, protect_last = 0, lse = none, scores = none, phases = [never], buffers = []>} {
  kvc.done
}

// -----

// An axis says its extent.
// expected-error @+1 {{axis kv_heads must have the extent ?, got 3}}
func.func private @heads(tensor<3x?xf32, #kvc.axes<kv_heads, past>>)

// -----

// expected-error @+1 {{axis bin must have the extent 2048, got 2047}}
func.func private @bins(tensor<?x2047xi32, #kvc.axes<kv_heads, bin>>)

// -----

// expected-error @+1 {{axis query must have the extent 1 or more, or ?, got 0}}
func.func private @queries(tensor<?x0xf32, #kvc.axes<query_heads, query>>)

// -----

// expected-error @+1 {{a tensor must have an axis for each of its 2 dimensions, got #kvc.axes<past>}}
func.func private @dimensions(tensor<1x?xf32, #kvc.axes<past>>)
