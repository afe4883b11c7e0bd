//===- InferAxes.cpp - kvc-infer-axes -------------------------------------===//

#include "passes/Passes.h"

#include "dialect/Behind.h"

namespace kvc {
#define GEN_PASS_DEF_INFERAXES
#include "passes/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

/// The static extent of the query axis, taken from the operands or from what
/// reads queries itself; 0 when there is none or all queries are read.
int64_t windowOf(Operation *op) {
  if (int64_t queries = needsOf(op).queries)
    return ShapedType::isDynamic(queries) ? 0 : queries;
  for (Value operand : op->getOperands())
    for (auto [axis, extent] :
         llvm::zip(axesOf(operand.getType()),
                   isa<RankedTensorType>(operand.getType())
                       ? cast<RankedTensorType>(operand.getType()).getShape()
                       : ArrayRef<int64_t>()))
      if (axis == Axis::Query)
        return extent;
  return 0;
}

/// True where the rows of a value are those of all queries; false for a window
/// and for what is merely repeated along one.
bool rowsAreAll(Value value) {
  bool all = false;
  walkBehind(value, [&](Value behind) {
    int64_t queries = needsOf(behind.getDefiningOp()).queries;
    all |= queries && ShapedType::isDynamic(queries);
    return !queries && axesOf(behind.getType()).size() == 3;
  });
  return all;
}

/// Joins the operands' axes; inserts broadcasts where heads differ.
LogicalResult inferElementwise(Operation *op, AxisList &result) {
  Axis heads = Axis::OneHead;
  std::optional<int64_t> window;
  auto say = [](int64_t extent) {
    return extent ? std::to_string(extent) : std::string("all queries");
  };
  for (Value operand : op->getOperands()) {
    AxisList axes = axesOf(operand.getType());
    if (axes.empty())
      continue;
    heads = joinHeads(heads, axes.front());
    if (result.empty())
      result = axes;
    if (ArrayRef(result).drop_front() != ArrayRef(axes).drop_front())
      return op->emitError("operands must have the same axes, got ")
             << AxesAttr::get(op->getContext(), result) << " and "
             << AxesAttr::get(op->getContext(), axes);
    auto type = cast<RankedTensorType>(operand.getType());
    bool all = rowsAreAll(operand);
    if (axes.size() != 3 || (type.isDynamicDim(1) && !all))
      continue;
    int64_t extent = all ? 0 : type.getDimSize(1);
    if (window && extent != *window)
      return op->emitError("operands must have the same window, got ")
             << say(*window) << " and " << say(extent);
    window = extent;
  }
  result.front() = heads;
  OpBuilder builder(op);
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    RankedTensorType wanted =
        type ? withAxes(type, result, window.value_or(0)) : type;
    if (type == wanted)
      continue;
    operand.set(
        BroadcastOp::create(builder, op->getLoc(), wanted, operand.get()));
  }
  return success();
}

/// C6 of kvc.reduce: rows of their own, and few enough of them where they are kept
/// until all heads have been seen.
LogicalResult checkRows(ReduceOp reduce) {
  Value value = reduce.getValue();
  auto type = cast<RankedTensorType>(value.getType());
  if (!llvm::is_contained(axesOf(type), Axis::Query))
    return success();
  bool all = rowsAreAll(value);
  if (type.isDynamicDim(1) && !all)
    return reduce.emitOpError("rows must come from kvc.attention, got a value "
                              "that is repeated along the window");
  if (all && reduce.getAxis() == ReduceAxis::Heads)
    return reduce.emitOpError("rows of all queries must be reduced over "
                              "queries before they are reduced over all heads");
  return success();
}

/// A row of the cache is a KV head's (C1).
LogicalResult checkKeep(KeepOp keep) {
  SmallVector<std::pair<StringRef, Value>> operands{
      {"mask", keep.getMask()},
      {"destination of merge", keep.getDestination()},
      {"weight of merge", keep.getWeight()}};
  for (Value carried : keep.getCarried())
    operands.push_back({"number that rows carry", carried});
  for (auto [what, value] : operands)
    if (value && headsOf(value.getType()) == Axis::QueryHeads)
      return keep.emitOpError("the ")
             << what
             << " must be per KV head, got a value per "
                "query head; reduce it over the group "
                "first";
  return success();
}

LogicalResult inferOp(Operation *op) {
  for (Value operand : op->getOperands())
    if (axesOf(operand.getType()).size() == 2 &&
        axesOf(operand.getType()).back() == Axis::Channel &&
        !isa<BroadcastOp>(op))
      return op->emitError("a vector of channels must be repeated along tokens "
                           "(kvc.broadcast) before it is used by ")
             << op->getName();
  bool ofMembers = llvm::any_of(op->getOperandTypes(), [](Type type) {
    return llvm::is_contained(axesOf(type), Axis::Member);
  });
  bool elementwise = !isa<KVCDialect>(op->getDialect());
  if (ofMembers && !elementwise && !isa<ReduceOp>(op))
    return op->emitError(
               "a value per member must be reduced over the members "
               "of each row (kvc.reduce members) before it is used by ")
           << op->getName();
  if (auto keep = dyn_cast<KeepOp>(op); keep && failed(checkKeep(keep)))
    return failure();
  if (op->getNumResults() != 1)
    return success();
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type)
    return success();
  if (auto reduce = dyn_cast<ReduceOp>(op); reduce && failed(checkRows(reduce)))
    return failure();
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
