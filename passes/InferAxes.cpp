//===- InferAxes.cpp - kvc-infer-axes -------------------------------------===//

#include "passes/Passes.h"

namespace kvc {
#define GEN_PASS_DEF_INFERAXES
#include "passes/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

/// The static extent of the window axis, taken from the operands or from the
/// attention op itself; 0 when there is none.
int64_t windowOf(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return constantOf(attention.getLast());
  for (Value operand : op->getOperands())
    for (auto [axis, extent] :
         llvm::zip(axesOf(operand.getType()),
                   isa<RankedTensorType>(operand.getType())
                       ? cast<RankedTensorType>(operand.getType()).getShape()
                       : ArrayRef<int64_t>()))
      if (axis == Axis::Window)
        return extent;
  return 0;
}

/// Joins the operands' axes; inserts broadcasts where heads differ.
LogicalResult inferElementwise(Operation *op, AxisList &result) {
  Axis heads = Axis::OneHead;
  int64_t window = 0;
  for (Value operand : op->getOperands()) {
    AxisList axes = axesOf(operand.getType());
    if (axes.empty())
      continue;
    heads = joinHeads(heads, axes.front());
    if (result.empty())
      result = axes;
    auto type = cast<RankedTensorType>(operand.getType());
    if (axes.size() != 3 || type.isDynamicDim(1))
      continue;
    if (window && type.getDimSize(1) != window)
      return op->emitError("operands must have the same window, got ")
             << window << " and " << type.getDimSize(1);
    window = type.getDimSize(1);
  }
  result.front() = heads;
  OpBuilder builder(op);
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type || type == withAxes(type, result, window))
      continue;
    operand.set(BroadcastOp::create(
        builder, op->getLoc(), withAxes(type, result, window), operand.get()));
  }
  return success();
}

LogicalResult inferOp(Operation *op) {
  if (op->getNumResults() != 1)
    return success();
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type)
    return success();
  AxisList result;
  if (auto inferable = dyn_cast<AxesOpInterface>(op)) {
    SmallVector<AxisList> operands;
    for (Value operand : op->getOperands())
      operands.push_back(axesOf(operand.getType()));
    if (failed(inferable.inferAxes(operands, result)))
      return failure();
  } else if (failed(inferElementwise(op, result))) {
    return failure();
  }
  op->getResult(0).setType(withAxes(type, result, windowOf(op)));
  return success();
}

struct InferAxesPass : public kvc::impl::InferAxesBase<InferAxesPass> {
  void runOnOperation() override {
    if (isa<DoneOp>(getOperation().getBody().front().back()))
      return; // fused: the types have their axes
    for (Operation &op :
         llvm::make_early_inc_range(getOperation().getBody().front()))
      if (failed(inferOp(&op)))
        return signalPassFailure();
  }
};

} // namespace
