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

/// What is known of an axis everywhere; of queries nothing is.
static int64_t extentOf(Axis axis) {
  return axis == Axis::Pair      ? 2
         : axis == Axis::Bin     ? digitBins
         : axis == Axis::OneHead ? 1
                                 : ShapedType::kDynamic;
}

RankedTensorType kvc::withAxes(RankedTensorType type, ArrayRef<Axis> axes,
                               int64_t window) {
  SmallVector<int64_t> shape;
  for (Axis axis : axes)
    shape.push_back(axis == Axis::Query && window ? window : extentOf(axis));
  return RankedTensorType::get(shape, type.getElementType(),
                               AxesAttr::get(type.getContext(), axes));
}

/// Scratch has the extents of its type, and kernels index it by those of its axes.
LogicalResult AxesAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type,
    llvm::function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getAxes().size())
    return emitError() << "a tensor must have an axis for each of its "
                       << shape.size() << " dimensions, got " << *this;
  auto text = [](int64_t extent) {
    return ShapedType::isDynamic(extent) ? "?" : std::to_string(extent);
  };
  for (auto [extent, axis] : llvm::zip(shape, getAxes())) {
    bool isKnown = axis == Axis::Query ? extent != 0 : extent == extentOf(axis);
    if (!isKnown)
      return emitError() << "axis " << stringifyAxis(axis)
                         << " must have the extent "
                         << (axis == Axis::Query ? "1 or more, or ?"
                                                 : text(extentOf(axis)))
                         << ", got " << text(extent);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Inference
//===----------------------------------------------------------------------===//

LogicalResult AttentionOp::inferAxes(ArrayRef<AxisList>,
                                     MutableArrayRef<AxisList> results) {
  results[0] = {Axis::QueryHeads, Axis::Query,
                getMembers() ? Axis::Member : Axis::Past};
  return success();
}

LogicalResult NormOp::inferAxes(ArrayRef<AxisList>,
                                MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads, Axis::Past};
  return success();
}

LogicalResult ProjectedNormOp::inferAxes(ArrayRef<AxisList>,
                                         MutableArrayRef<AxisList> results) {
  results[0] = {Axis::QueryHeads, Axis::Past};
  return success();
}

LogicalResult VectorsOp::inferAxes(ArrayRef<AxisList>,
                                   MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads, Axis::Channel, Axis::Past};
  return success();
}

LogicalResult PositionOp::inferAxes(ArrayRef<AxisList>,
                                    MutableArrayRef<AxisList> results) {
  results[0] = {getRow() ? Axis::KVHeads : Axis::OneHead, Axis::Past};
  return success();
}

LogicalResult RowStateOp::inferAxes(ArrayRef<AxisList>,
                                    MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads, Axis::Past};
  return success();
}

LogicalResult FillOp::inferAxes(ArrayRef<AxisList>,
                                MutableArrayRef<AxisList> results) {
  const Axis all[] = {Axis::OneHead, Axis::Query, Axis::Past};
  int64_t rank = cast<RankedTensorType>(getType()).getRank();
  results[0] = {Axis::OneHead};
  results[0].append(all + 3 - (rank - 1), all + 3);
  return success();
}

LogicalResult BroadcastOp::inferAxes(ArrayRef<AxisList> operands,
                                     MutableArrayRef<AxisList> results) {
  Axis heads = operands[0].empty() ? Axis::OneHead : operands[0].front();
  switch (cast<RankedTensorType>(getType()).getRank()) {
  case 1:
    results[0] = {heads};
    return success();
  case 2:
    results[0] = {heads, Axis::Past};
    return success();
  case 3: {
    bool channels =
        getChannels() || llvm::is_contained(operands[0], Axis::Channel);
    results[0] = {heads, channels ? Axis::Channel : Axis::Query, Axis::Past};
    return success();
  }
  }
  return emitOpError("result must have rank 1, 2 or 3, got ") << getType();
}

LogicalResult ReduceOp::inferAxes(ArrayRef<AxisList> operands,
                                  MutableArrayRef<AxisList> results) {
  results[0] = operands[0];
  switch (getAxis()) {
  case ReduceAxis::Queries:
  case ReduceAxis::Channels: {
    bool rows = getAxis() == ReduceAxis::Queries;
    if (results[0][1] != (rows ? Axis::Query : Axis::Channel)) // C4
      return emitOpError("over ")
             << stringifyReduceAxis(getAxis()) << " needs a value per "
             << (rows ? "query" : "channel") << ", got one per "
             << (rows ? "channel" : "query");
    results[0].erase(results[0].begin() + 1);
    return success();
  }
  case ReduceAxis::Group:
    if (results[0].front() != Axis::QueryHeads) // C4
      return emitOpError("group needs a value per query head, got a value per ")
             << (results[0].front() == Axis::KVHeads ? "KV head"
                                                     : "token alone");
    results[0].front() = Axis::KVHeads;
    return success();
  case ReduceAxis::Heads:
    if (results[0].back() == Axis::Member) // C4
      return emitOpError(
          "over heads needs a value per row, got one per member");
    results[0].front() = Axis::OneHead;
    return success();
  case ReduceAxis::Tokens:
    if (results[0].size() == 3 && (results[0][1] != Axis::Channel ||
                                   results[0][0] != Axis::KVHeads)) // C4
      return emitOpError("over tokens needs scores, or channels per KV head");
    if (results[0].back() == Axis::Member) // C4
      return emitOpError(
          "over tokens needs a value per row, got one per member");
    results[0].pop_back();
    return success();
  case ReduceAxis::Members:
    if (results[0].back() != Axis::Member ||
        results[0].front() != Axis::KVHeads) // C4
      return emitOpError("over members needs a value per member and KV head, "
                         "got one per ")
             << (results[0].back() != Axis::Member ? "row" : "query head");
    results[0].back() = Axis::Past;
    return success();
  }
  return failure();
}

LogicalResult PoolOp::inferAxes(ArrayRef<AxisList> operands,
                                MutableArrayRef<AxisList> results) {
  results[0] = operands[0];
  return success();
}

LogicalResult SegmentOp::inferAxes(ArrayRef<AxisList> operands,
                                   MutableArrayRef<AxisList> results) {
  results[0] = operands[0];
  if (results[0].size() == 3 && results[0][1] != Axis::Channel) // C3
    return emitOpError("needs a value per token or per channel, got one per "
                       "query");
  return success();
}

LogicalResult AllocateOp::inferAxes(ArrayRef<AxisList>,
                                    MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads};
  return success();
}

LogicalResult AllocateLayersOp::inferAxes(ArrayRef<AxisList>,
                                          MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads};
  return success();
}

LogicalResult AllocateHeadsOp::inferAxes(ArrayRef<AxisList> operands,
                                         MutableArrayRef<AxisList> results) {
  const char *const names[] = {"score", "base"};
  for (auto [axes, what] : llvm::zip(operands, names))
    if (axes.front() != Axis::KVHeads) // C1
      return emitOpError(what)
             << " must be per KV head, got a value per "
             << (axes.front() == Axis::OneHead ? "token alone" : "query head");
  results[0] = {Axis::KVHeads};
  return success();
}

LogicalResult AllocateTableOp::inferAxes(ArrayRef<AxisList>,
                                         MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads};
  return success();
}

LogicalResult SelectHeadsOp::inferAxes(ArrayRef<AxisList> operands,
                                       MutableArrayRef<AxisList> results) {
  if (operands[0].front() != Axis::KVHeads) // C1
    return emitOpError("value must be per KV head, got a value per ")
           << (operands[0].front() == Axis::OneHead ? "sequence"
                                                    : "query head");
  results[0] = {Axis::KVHeads};
  if (cast<RankedTensorType>(getType()).getRank() == 2)
    results[0].push_back(Axis::Past);
  return success();
}

LogicalResult KeptLayersOp::inferAxes(ArrayRef<AxisList>,
                                      MutableArrayRef<AxisList> results) {
  results[0] = {Axis::OneHead, Axis::Past};
  return success();
}

LogicalResult CountRowsOp::inferAxes(ArrayRef<AxisList>,
                                     MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads};
  return success();
}

LogicalResult CountMassOp::inferAxes(ArrayRef<AxisList> operands,
                                     MutableArrayRef<AxisList> results) {
  if (operands[0].front() == Axis::QueryHeads) // C1
    return emitOpError("score must be per KV head, got a value per query head; "
                       "reduce it over the group first");
  results[0] = {Axis::KVHeads};
  return success();
}

LogicalResult ScaleCountOp::inferAxes(ArrayRef<AxisList> operands,
                                      MutableArrayRef<AxisList> results) {
  results[0] = operands[0];
  return success();
}

LogicalResult TopkOp::inferAxes(ArrayRef<AxisList> operands,
                                MutableArrayRef<AxisList> results) {
  const char *const names[] = {"score", "count"};
  for (auto [axes, what] : llvm::zip(operands, names))
    if (axes.front() == Axis::QueryHeads) // C1
      return emitOpError(what)
             << " must be per KV head, got a value per query head; reduce it "
                "over the group first";
  results[0] = {Axis::KVHeads, Axis::Past};
  return success();
}

LogicalResult NearestOp::inferAxes(ArrayRef<AxisList> operands,
                                   MutableArrayRef<AxisList> results) {
  const char *const names[] = {"sources", "centres"};
  for (auto [axes, what] : llvm::zip(operands, names))
    if (axes.front() == Axis::QueryHeads) // C1
      return emitOpError(what)
             << " must be per KV head, got a value per query head";
  results[0] = {Axis::KVHeads, Axis::Past};
  return success();
}

LogicalResult MemberKeysOp::inferAxes(ArrayRef<AxisList>,
                                      MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads, Axis::Member, Axis::Channel};
  return success();
}

LogicalResult RowStatisticsOp::inferAxes(ArrayRef<AxisList>,
                                         MutableArrayRef<AxisList> results) {
  results[0] = {Axis::QueryHeads, Axis::Query, Axis::Split, Axis::Pair};
  return success();
}

LogicalResult RowLogSumExpOp::inferAxes(ArrayRef<AxisList>,
                                        MutableArrayRef<AxisList> results) {
  results[0] = {Axis::QueryHeads, Axis::Query};
  return success();
}

LogicalResult
CombineStatisticsOp::inferAxes(ArrayRef<AxisList>,
                               MutableArrayRef<AxisList> results) {
  results[0] = {Axis::QueryHeads, Axis::Query};
  return success();
}

/// What tokens have of a head, split by split.
static LogicalResult inferParts(const AxisList &operand,
                                MutableArrayRef<AxisList> results) {
  Axis heads = operand.front();
  if (operand != AxisList{heads, Axis::Past} || heads == Axis::OneHead)
    return failure();
  for (AxisList &result : results)
    result = {heads, Axis::Split};
  return success();
}

LogicalResult ReducePartOp::inferAxes(ArrayRef<AxisList> operands,
                                      MutableArrayRef<AxisList> results) {
  if (succeeded(inferParts(operands[0], results)))
    return success();
  if (operands[0] != AxisList{Axis::KVHeads, Axis::Channel, Axis::Past})
    return emitOpError("reduces numbers of heads or vectors per KV head, got ")
           << getValue().getType();
  results[0] = {Axis::KVHeads, Axis::Split, Axis::Channel};
  return success();
}

LogicalResult CombinePartsOp::inferAxes(ArrayRef<AxisList> operands,
                                        MutableArrayRef<AxisList> results) {
  results[0] = operands[0];
  results[0].erase(results[0].begin() + 1);
  return success();
}

LogicalResult ExpSumPartOp::inferAxes(ArrayRef<AxisList> operands,
                                      MutableArrayRef<AxisList> results) {
  if (succeeded(inferParts(operands[0], results)))
    return success();
  return emitOpError("reduces numbers of heads, got ") << getValue().getType();
}

LogicalResult CombineExpSumsOp::inferAxes(ArrayRef<AxisList> operands,
                                          MutableArrayRef<AxisList> results) {
  for (auto [result, operand] : llvm::zip(results, operands)) {
    result = operand;
    result.erase(result.begin() + 1);
  }
  return success();
}

LogicalResult DeviationPartOp::inferAxes(ArrayRef<AxisList> operands,
                                         MutableArrayRef<AxisList> results) {
  if (failed(inferParts(operands[0], results)))
    return emitOpError("reduces numbers of heads, got ")
           << getValue().getType();
  for (AxisList &result : results)
    result.push_back(Axis::Pair);
  return success();
}

LogicalResult
CombineDeviationsOp::inferAxes(ArrayRef<AxisList> operands,
                               MutableArrayRef<AxisList> results) {
  results[0] = {operands[0].front()};
  return success();
}

LogicalResult StoreOp::inferAxes(ArrayRef<AxisList> operands,
                                 MutableArrayRef<AxisList> results) {
  results[0] = operands[0];
  return success();
}

LogicalResult ListOp::inferAxes(ArrayRef<AxisList>,
                                MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads, Axis::Kept};
  results[1] = {Axis::KVHeads};
  return success();
}

LogicalResult ListKeptOp::inferAxes(ArrayRef<AxisList>,
                                    MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads, Axis::Kept};
  results[1] = {Axis::KVHeads};
  return success();
}

LogicalResult ListMembersOp::inferAxes(ArrayRef<AxisList>,
                                       MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads, Axis::Kept};
  return success();
}

LogicalResult CountDigitsOp::inferAxes(ArrayRef<AxisList>,
                                       MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads, Axis::Bin};
  return success();
}

LogicalResult KeyPrefixOp::inferAxes(ArrayRef<AxisList>,
                                     MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads, Axis::Past};
  return success();
}

LogicalResult ListCandidatesOp::inferAxes(ArrayRef<AxisList>,
                                          MutableArrayRef<AxisList> results) {
  results[0] = {Axis::KVHeads};
  results[1] = {Axis::KVHeads, Axis::Bin};
  results[2] = {Axis::KVHeads, Axis::Split};
  results[3] = {Axis::KVHeads, Axis::Pair};
  results[4] = results[5] = {Axis::KVHeads, Axis::Kept};
  return success();
}

LogicalResult GramOp::inferAxes(ArrayRef<AxisList>,
                                MutableArrayRef<AxisList> results) {
  results[0] = {Axis::QueryHeads, Axis::Channel, Axis::Channel};
  results[1] = {Axis::QueryHeads, Axis::Channel, Axis::Pair};
  return success();
}
