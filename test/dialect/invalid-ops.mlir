// RUN: kvc-opt %s --split-input-file --verify-diagnostics

// ParamOp C1: the value has another type.
kvc.policy @param_value {
  // expected-error @+1 {{value must be a number of the result's type, got 1 : i32}}
  %w = "kvc.param"() <{name = "window", value = 1 : i32}> : () -> index
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// ParamOp C1: a number of numbers.
kvc.policy @param_list {
  // expected-error @+1 {{value must be a number of the result's type, got}}
  %w = "kvc.param"() <{name = "window", value = dense<1> : tensor<2xindex>}> : () -> index
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// ParamOp C2: no number of JSON's.
kvc.policy @param_infinite {
  // expected-error @+1 {{value must be finite, got 0x7F800000 : f32}}
  %w = kvc.param "share" = 0x7F800000 : f32
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// PolicyOp C3: the manifest has no such values.
// expected-error @+1 {{params must be whole numbers, finite floats and decimal texts, got "window" = "many"}}
kvc.policy @params_text attributes {params = {window = "many"}} {
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// PolicyOp C3
// expected-error @+1 {{params must be whole numbers, finite floats and decimal texts, got "share" = 0x7FC00000 : f32}}
kvc.policy @params_nan attributes {params = {share = 0x7FC00000 : f32}} {
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// KernelOp C1
kvc.policy @kernel_arguments {
  %s = kvc.kernel columns "columns0"() : () -> tensor<?x?xf32> {
    %n = kvc.norm l2 key : tensor<?x?xf32>
    kvc.yield %n : tensor<?x?xf32>
  }
  // expected-error @+1 {{body arguments must have the operands' types}}
  %r = kvc.kernel columns "columns1"(%s) : (tensor<?x?xf32>) -> tensor<?x?xf32> {
  ^bb0(%x: tensor<?xf32>):
    %n = kvc.norm l2 key : tensor<?x?xf32>
    kvc.yield %n : tensor<?x?xf32>
  }
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// KernelOp C2
kvc.policy @kernel_results {
  // expected-error @+1 {{body must end in kvc.yield of the results' types}}
  %s = kvc.kernel columns "columns0"() : () -> tensor<?xf32> {
    %n = kvc.norm l2 key : tensor<?x?xf32>
    kvc.yield %n : tensor<?x?xf32>
  }
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// KernelOp C5: a matrix without its sums.
kvc.policy @kernel_gram {
  %s = kvc.kernel columns "columns0"() : () -> tensor<?x?xf32> {
    %n = kvc.norm l2 key : tensor<?x?xf32>
    kvc.yield %n : tensor<?x?xf32>
  }
  // expected-error @+1 {{gram must be a matrix and its sums, got 1 operands}}
  kvc.kernel columns "columns1"() gram(%s) : (tensor<?x?xf32>) -> () {
  ^bb0(%x: tensor<?x?xf32>):
    kvc.yield
  }
  kvc.done
}

// -----

// KernelOp C6: only kernels that rank nothing.
kvc.policy @kernel_every_row {
  // expected-error @+1 {{of kind spans cannot be for every_row}}
  kvc.kernel spans every_row "spans0"() : () -> () {
    kvc.yield
  }
  kvc.done
}

// -----

// KeepOp C2
kvc.policy @carried_name {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %true = arith.constant true
  %all = kvc.broadcast %true : i1 to tensor<?x?xi1>
  // expected-error @+1 {{what is carried must have a name of letters, digits and _, not beginning with a digit, got '2nd'}}
  kvc.keep %all carry("2nd" = %n : tensor<?x?xf32>) : tensor<?x?xi1>
}

// -----

// KeepOp C2
kvc.policy @carried_twice {
  %n = kvc.norm l2 key : tensor<?x?xf32>
  %true = arith.constant true
  %all = kvc.broadcast %true : i1 to tensor<?x?xi1>
  // expected-error @+1 {{what is carried must have a name of its own, got 'n' twice}}
  kvc.keep %all carry("n" = %n : tensor<?x?xf32>, "n" = %n : tensor<?x?xf32>) : tensor<?x?xi1>
}

// -----

// ReduceOp C1
kvc.policy @members_of_queries {
  %n = kvc.new_queries
  %a = kvc.attention last(%n) members : tensor<?x?x?xf32>
  // expected-error @+1 {{over members needs rank 2, got 'tensor<?x?x?xf32>'}}
  %x = kvc.reduce sum members %a : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %t = arith.constant true
  %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
  kvc.keep %all : tensor<?x?xi1>
}

// -----

// KernelOp C6: members are not selected.
kvc.policy @kernel_of_members {
  // expected-error @+1 {{of kind spans cannot be of_members}}
  kvc.kernel spans of_members "spans0"() : () -> () {
    kvc.yield
  }
  kvc.done
}

// -----

// KernelOp C6: without keys there is nothing to attend to.
kvc.policy @kernel_without_keys {
  // expected-error @+1 {{of_members goes with keys, got none}}
  kvc.kernel columns of_members "members"() : () -> () {
    kvc.yield
  }
  kvc.done
}
