//===- KVCInterfaces.td - what passes ask an op ---------------------------===//

#ifndef KVC_INTERFACES_TD
#define KVC_INTERFACES_TD

include "mlir/IR/OpBase.td"

def KVC_AxesOpInterface : OpInterface<"AxesOpInterface"> {
  let cppNamespace = "::kvc";
  let description = [{
    An op that knows which axes its result has. Scalars have no axes.
    Elementwise ops of other dialects need no interface: their result has the
    join of their operands' axes.
  }];
  let methods = [
    InterfaceMethod<
      "Sets `result` to the axes of the only result, given the operands' axes; "
      "on failure an error has been emitted.",
      "::llvm::LogicalResult", "inferAxes",
      (ins "::llvm::ArrayRef<::kvc::AxisList>":$operands,
           "::kvc::AxisList &":$result)>
  ];
}

#endif // KVC_INTERFACES_TD
