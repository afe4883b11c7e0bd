// RUN: kvc-opt %s --pass-pipeline="builtin.module(kvc.policy(kvc-bind-params))" | FileCheck %s --check-prefixes=CHECK,DEFAULT
// RUN: kvc-opt %s --pass-pipeline="builtin.module(kvc.policy(kvc-bind-params{values=sinks=8}))" | FileCheck %s --check-prefixes=CHECK,GIVEN
// RUN: not kvc-opt %s --emit=policy --param nope=1 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not kvc-opt %s --emit=policy --param sinks=many 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not kvc-opt %s --emit=policy --param sinks 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not kvc-opt %S/../../policies/adakv.mlir --emit=policy --param safeguard=0.77777 2>&1 | FileCheck %s --check-prefix=PLACES
// ParamOp C3: the manifest has one value for a name.
// RUN: sed 's/^kvc.policy @sinks {/&\n%%again = kvc.param "sinks" = 5 : index/' %s > %t.twice.mlir
// RUN: not kvc-opt %t.twice.mlir --emit=policy 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: parameter 'sinks' is read twice; read it once and use the result

// CHECK: kvc.policy @sinks
// DEFAULT-SAME: params = {sinks = 4 : index}
// GIVEN-SAME: params = {sinks = 8 : index}
// DEFAULT: arith.constant 4 : index
// GIVEN: arith.constant 8 : index
// CHECK-NOT: kvc.param
// UNKNOWN: error: policy 'sinks' has no parameter 'nope'
// TYPE: error: parameter 'sinks' must be a non-negative number of type 'index', got 'many'
// PLACES: error: parameter 'safeguard' must be a decimal of at most 4 places, 0 or more and below 1024, got '0.77777'
// FORM: error: a parameter is given as NAME=VALUE, got 'sinks'
kvc.policy @sinks {
  %sinks = kvc.param "sinks" = 4 : index
  %t = kvc.position : tensor<?x?xi32>
  %end = kvc.broadcast %sinks : index to tensor<?x?xi32>
  %m = arith.cmpi ult, %t, %end : tensor<?x?xi32>
  kvc.keep %m : tensor<?x?xi1>
}
