//===- KVCAxes.cpp - axis helpers and the inference of each op ------------===//

#include "dialect/KVCDialect.h"

using namespace mlir;
using namespace kvc;

Axis kvc::joinHeads(Axis a, Axis b) {
  if (a == Axis::QueryHeads || b == Axis::QueryHeads)
    return Axis::QueryHeads;
  return a == Axis::KVHeads || b == Axis::KVHeads ? Axis::KVHeads
                                                  : Axis::OneHead;
}

AxisList kvc::axesOf(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    if (auto axes = dyn_cast_or_null<AxesAttr>(tensor.getEncoding()))
      return AxisList(axes.getAxes());
  return {};
}

Axis kvc::headsOf(Type type) {
  AxisList axes = axesOf(type);
  return axes.empty() ? Axis::OneHead : axes.front();
}

RankedTensorType kvc::withAxes(RankedTensorType type, ArrayRef<Axis> axes,
                               int64_t window) {
  SmallVector<int64_t> shape;
  for (Axis axis : axes)
    shape.push_back(axis == Axis::Pair               ? 2
                    : axis == Axis::Window && window ? window
                    : axis == Axis::OneHead          ? 1
                                                     : ShapedType::kDynamic);
  return RankedTensorType::get(shape, type.getElementType(),
                               AxesAttr::get(type.getContext(), axes));
}

//===----------------------------------------------------------------------===//
// Inference
//===----------------------------------------------------------------------===//

LogicalResult AttentionOp::inferAxes(ArrayRef<AxisList>, AxisList &result) {
  result = {Axis::QueryHeads, Axis::Window, Axis::Past};
  return success();
}

LogicalResult NormOp::inferAxes(ArrayRef<AxisList>, AxisList &result) {
  result = {Axis::KVHeads, Axis::Past};
  return success();
}

LogicalResult ProjectedNormOp::inferAxes(ArrayRef<AxisList>, AxisList &result) {
  result = {Axis::QueryHeads, Axis::Past};
  return success();
}

LogicalResult VectorsOp::inferAxes(ArrayRef<AxisList>, AxisList &result) {
  result = {Axis::KVHeads, Axis::Channel, Axis::Past};
  return success();
}

LogicalResult PositionOp::inferAxes(ArrayRef<AxisList>, AxisList &result) {
  result = {Axis::OneHead, Axis::Past};
  return success();
}

LogicalResult FillOp::inferAxes(ArrayRef<AxisList>, AxisList &result) {
  const Axis all[] = {Axis::OneHead, Axis::Window, Axis::Past};
  int64_t rank = cast<RankedTensorType>(getType()).getRank();
  result = {Axis::OneHead};
  result.append(all + 3 - (rank - 1), all + 3);
  return success();
}

LogicalResult BroadcastOp::inferAxes(ArrayRef<AxisList> operands,
                                     AxisList &result) {
  Axis heads = operands[0].empty() ? Axis::OneHead : operands[0].front();
  switch (cast<RankedTensorType>(getType()).getRank()) {
  case 1:
    result = {heads};
    return success();
  case 2:
    result = {heads, Axis::Past};
    return success();
  case 3: {
    bool channels =
        getChannels() || llvm::is_contained(operands[0], Axis::Channel);
    result = {heads, channels ? Axis::Channel : Axis::Window, Axis::Past};
    return success();
  }
  }
  return emitOpError("result must have rank 1, 2 or 3, got ") << getType();
}

LogicalResult ReduceOp::inferAxes(ArrayRef<AxisList> operands,
                                  AxisList &result) {
  result = operands[0];
  switch (getAxis()) {
  case ReduceAxis::Window:
  case ReduceAxis::Channels: {
    bool window = getAxis() == ReduceAxis::Window;
    if (result[1] != (window ? Axis::Window : Axis::Channel)) // C4
      return emitOpError("over ")
             << stringifyReduceAxis(getAxis()) << " needs a value per "
             << (window ? "query of the window" : "channel") << ", got one per "
             << (window ? "channel" : "query");
    result.erase(result.begin() + 1);
    return success();
  }
  case ReduceAxis::Group:
    if (result.front() != Axis::QueryHeads) // C4
      return emitOpError("group needs a value per query head, got a value per ")
             << (result.front() == Axis::KVHeads ? "KV head" : "token alone");
    result.front() = Axis::KVHeads;
    return success();
  case ReduceAxis::Heads:
    result.front() = Axis::OneHead;
    return success();
  case ReduceAxis::Tokens:
    if (result.size() == 3 &&
        (result[1] != Axis::Channel || result[0] != Axis::KVHeads)) // C4
      return emitOpError("over tokens needs scores, or channels per KV head");
    result.pop_back();
    return success();
  }
  return failure();
}

LogicalResult PoolOp::inferAxes(ArrayRef<AxisList> operands, AxisList &result) {
  result = operands[0];
  return success();
}

LogicalResult SegmentOp::inferAxes(ArrayRef<AxisList> operands,
                                   AxisList &result) {
  result = operands[0];
  if (result.size() == 3 && result[1] != Axis::Channel) // C3
    return emitOpError("needs a value per token or per channel, got one per "
                       "query");
  return success();
}

LogicalResult AllocateOp::inferAxes(ArrayRef<AxisList>, AxisList &result) {
  result = {Axis::KVHeads};
  return success();
}

LogicalResult AllocateLayersOp::inferAxes(ArrayRef<AxisList>,
                                          AxisList &result) {
  result = {Axis::KVHeads};
  return success();
}

LogicalResult AllocateHeadsOp::inferAxes(ArrayRef<AxisList> operands,
                                         AxisList &result) {
  const char *const names[] = {"score", "base"};
  for (auto [axes, what] : llvm::zip(operands, names))
    if (axes.front() != Axis::KVHeads) // C1
      return emitOpError(what)
             << " must be per KV head, got a value per "
             << (axes.front() == Axis::OneHead ? "token alone" : "query head");
  result = {Axis::KVHeads};
  return success();
}

LogicalResult AllocateTableOp::inferAxes(ArrayRef<AxisList>, AxisList &result) {
  result = {Axis::KVHeads};
  return success();
}

LogicalResult SelectHeadsOp::inferAxes(ArrayRef<AxisList> operands,
                                       AxisList &result) {
  if (operands[0].front() != Axis::KVHeads) // C1
    return emitOpError("value must be per KV head, got a value per ")
           << (operands[0].front() == Axis::OneHead ? "sequence"
                                                    : "query head");
  result = {Axis::KVHeads};
  if (cast<RankedTensorType>(getType()).getRank() == 2)
    result.push_back(Axis::Past);
  return success();
}

LogicalResult KeptLayersOp::inferAxes(ArrayRef<AxisList>, AxisList &result) {
  result = {Axis::OneHead, Axis::Past};
  return success();
}

LogicalResult CountMassOp::inferAxes(ArrayRef<AxisList> operands,
                                     AxisList &result) {
  if (operands[0].front() == Axis::QueryHeads) // C1
    return emitOpError("score must be per KV head, got a value per query head; "
                       "reduce it over the group first");
  result = {Axis::KVHeads};
  return success();
}

LogicalResult ScaleCountOp::inferAxes(ArrayRef<AxisList> operands,
                                      AxisList &result) {
  result = operands[0];
  return success();
}

LogicalResult TopkOp::inferAxes(ArrayRef<AxisList> operands, AxisList &result) {
  const char *const names[] = {"score", "count"};
  for (auto [axes, what] : llvm::zip(operands, names))
    if (axes.front() == Axis::QueryHeads) // C1
      return emitOpError(what)
             << " must be per KV head, got a value per query head; reduce it "
                "over the group first";
  result = {Axis::KVHeads, Axis::Past};
  return success();
}

LogicalResult NearestOp::inferAxes(ArrayRef<AxisList> operands,
                                   AxisList &result) {
  const char *const names[] = {"sources", "centres"};
  for (auto [axes, what] : llvm::zip(operands, names))
    if (axes.front() == Axis::QueryHeads) // C1
      return emitOpError(what)
             << " must be per KV head, got a value per query head";
  result = {Axis::KVHeads, Axis::Past};
  return success();
}

LogicalResult RowStatisticsOp::inferAxes(ArrayRef<AxisList>, AxisList &result) {
  result = {Axis::QueryHeads, Axis::Window, Axis::Split, Axis::Pair};
  return success();
}

LogicalResult RowLogSumExpOp::inferAxes(ArrayRef<AxisList>, AxisList &result) {
  result = {Axis::QueryHeads, Axis::Window};
  return success();
}

LogicalResult CombineStatisticsOp::inferAxes(ArrayRef<AxisList>,
                                             AxisList &result) {
  result = {Axis::QueryHeads, Axis::Window};
  return success();
}

LogicalResult StageOp::inferAxes(ArrayRef<AxisList> operands,
                                 AxisList &result) {
  result = operands[0];
  return success();
}
