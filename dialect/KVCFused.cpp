//===- KVCFused.cpp - what ops have at level fused ------------------------===//
//
// Operands that other kernels make. Level fused can be written by hand, so they
// are checked.
//
//===----------------------------------------------------------------------===//

#include "dialect/KVCDialect.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace kvc;

//===----------------------------------------------------------------------===//
// Arguments of the kernel
//===----------------------------------------------------------------------===//

static bool isInput(Value value) { return isa<BlockArgument>(value); }

static bool isInput(Value value, ArrayRef<Axis> axes) {
  return isInput(value) && ArrayRef(axesOf(value.getType())) == axes;
}

static LogicalResult readsInputs(Operation *op, ValueRange operands) {
  if (!llvm::all_of(operands, [](Value value) { return isInput(value); }))
    return op->emitOpError("reads arguments of the kernel");
  return success();
}

LogicalResult CombineStatisticsOp::verifyFused() {
  return readsInputs(*this, (*this)->getOperands());
}

LogicalResult CompactOp::verifyFused() {
  return readsInputs(*this, (*this)->getOperands());
}

LogicalResult MergeOp::verifyFused() { return readsInputs(*this, getTokens()); }

LogicalResult FillOp::verifyFused() {
  return emitOpError("is a kvc.broadcast of a constant at level fused");
}

//===----------------------------------------------------------------------===//
// What is made for one op
//===----------------------------------------------------------------------===//

MutableOperandRange AttentionOp::getPreparedMutable() {
  return getLseMutable();
}

LogicalResult AttentionOp::verifyFused() {
  bool made = getLse() && isInput(getLse(), {Axis::QueryHeads, Axis::Window});
  if (getLogits() ? bool(getLse()) : !made)
    return emitOpError("weights, and only they, need the log-sum-exp as "
                       "an argument of the kernel");
  return success();
}

LogicalResult ProjectedNormOp::verifyFused() {
  OperandRange made = getPrepared();
  if (!getBound() && !made.empty())
    return emitOpError("only a bound has prepared operands");
  if (getBound() &&
      (made.size() != 2 ||
       !isInput(made[0], {Axis::QueryHeads, Axis::Channel, Axis::Channel}) ||
       !isInput(made[1], {Axis::QueryHeads, Axis::Channel, Axis::Pair})))
    return emitOpError("a bound needs the matrix and the sums of a gram "
                       "kernel as arguments of the kernel");
  return success();
}

void NearestOp::prepare(OpBuilder &builder) {
  auto i32 = RankedTensorType::get({1}, builder.getI32Type());
  auto indices = withAxes(i32, {Axis::KVHeads, Axis::Kept}, 0);
  auto counts = withAxes(i32, {Axis::KVHeads}, 0);
  auto norms = withAxes(RankedTensorType::get({1}, builder.getF32Type()),
                        {Axis::KVHeads, Axis::Past}, 0);
  SmallVector<Value> prepared;
  for (Value mask : {getSources(), getCentres()}) {
    auto list = ListOp::create(builder, getLoc(), indices, counts, mask);
    prepared.append({list.getIndices(), list.getCounts()});
  }
  for (std::optional<CacheSide> side : {std::optional(getSide()), getTimes()})
    if (side)
      prepared.push_back(
          NormOp::create(builder, getLoc(), norms, NormKind::L2, *side));
  getPreparedMutable().assign(prepared);
}

LogicalResult NearestOp::verifyFused() {
  size_t sides = getTimes() ? 2 : 1;
  OperandRange made = getPrepared();
  bool good = made.size() == 4 + sides;
  for (size_t i = 0; good && i < made.size(); ++i) {
    const AxisList wanted = i >= 4  ? AxisList{Axis::KVHeads, Axis::Past}
                            : i % 2 ? AxisList{Axis::KVHeads}
                                    : AxisList{Axis::KVHeads, Axis::Kept};
    good = isInput(made[i], wanted) &&
           getElementTypeOrSelf(made[i].getType()).isInteger(32) == (i < 4);
  }
  if (!good)
    return emitOpError("needs the lists and counts of sources and "
                       "centres and the norms of each side as arguments "
                       "of the kernel");
  return success();
}
