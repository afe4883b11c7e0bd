//===- KVCInterfaces.td - what passes ask an op ---------------------------===//

#ifndef KVC_INTERFACES_TD
#define KVC_INTERFACES_TD

include "mlir/IR/OpBase.td"

def KVC_AxesOpInterface : OpInterface<"AxesOpInterface"> {
  let cppNamespace = "::kvc";
  let description = [{
    An op that knows which axes its results have. Scalars have no axes.
    Elementwise ops of other dialects need no interface: their result has the
    join of their operands' axes.
  }];
  let methods = [
    InterfaceMethod<
      "Sets `results`, one for each result, to its axes, given the operands' "
      "axes; on failure an error has been emitted.",
      "::llvm::LogicalResult", "inferAxes",
      (ins "::llvm::ArrayRef<::kvc::AxisList>":$operands,
           "::llvm::MutableArrayRef<::kvc::AxisList>":$results)>
  ];
}

def KVC_NeedsOpInterface : OpInterface<"NeedsOpInterface"> {
  let cppNamespace = "::kvc";
  let description = [{
    An op that says what it needs to be computed, not how that is done. Passes
    place it, check it and give it operands by this alone: none has a list of
    ops. All ops of kvc have it but the frame (`kvc.policy`, `kvc.kernel` and
    the ends of their bodies).
  }];
  let methods = [
    InterfaceMethod<
      "What it needs; see dialect/KVCNeeds.h.", "::kvc::Needs", "getNeeds">,
    InterfaceMethod<
      "Checks what is known once parameters are bound: constants in range.",
      "::llvm::LogicalResult", "verifyBound", (ins), "",
      "return ::llvm::success();">,
    InterfaceMethod<
      "Checks what holds at level fused: the operands that other kernels make.",
      "::llvm::LogicalResult", "verifyFused", (ins), "",
      "return ::llvm::success();">,
    InterfaceMethod<
      "The operands that it has at level fused only.",
      "::mlir::MutableOperandRange", "getPreparedMutable", (ins), "",
      "return ::mlir::MutableOperandRange($_op, 0, 0);">,
    InterfaceMethod<
      "Makes those that ops in front of it compute. What a kernel in front of "
      "all others makes (`Needs::prepared`) is no such operand.",
      "void", "prepare", (ins "::mlir::OpBuilder &":$builder), "",
      "(void)builder;">
  ];
}

def KVC_ScratchOpInterface : OpInterface<"ScratchOpInterface"> {
  let cppNamespace = "::kvc";
  let description = [{
    An op of a kernel with a scratch buffer of its own, which `kvc-plan-scratch`
    numbers: its first result lies there while the kernel runs.
  }];
  let methods = [
    InterfaceMethod<"The buffer, null until it is planned.",
      "::kvc::BufferAttr", "getBufferAttr">,
    InterfaceMethod<"Sets the buffer.",
      "void", "setBufferAttr", (ins "::kvc::BufferAttr":$buffer)>,
    InterfaceMethod<
      "True where a caller may read the buffer when the policy has run.",
      "bool", "outlivesPolicy">
  ];
}

// An op that appears at level fused only.
def KVC_OfLevelFused : NativeOpTrait<"OfLevelFused"> {
  let cppNamespace = "::kvc";
}

#endif // KVC_INTERFACES_TD
