//===- KVCTypes.td - the one type that upstream has not -------------------===//

#ifndef KVC_TYPES_TD
#define KVC_TYPES_TD

include "dialect/KVCDialect.td"
include "mlir/IR/AttrTypeBase.td"

def KVC_Fraction : TypeDef<KVC_Dialect, "Fraction"> {
  let mnemonic = "fraction";
  let summary = "exact fraction";
  let description = [{
    A rational number that is known when the policy is compiled. What decides a
    count is never a binary float: 0.2 is 1/5. Written as decimal
    text with up to 4 places.
  }];
}

#endif // KVC_TYPES_TD
