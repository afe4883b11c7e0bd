//===- ColumnsChannels.cpp - reductions over channels in a columns kernel -===//
//
// A lane that reads its token's vector alone reads 16 bytes of a row at a time, and 32
// lanes touch 32 lines. So the warp reads its tile's rows whole, each over some lanes
// (LaneRows.h), and a lane takes the numbers of its own token as they come by.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"

#include "dialect/Behind.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

static bool isOverChannels(Operation *op) {
  auto reduce = dyn_cast_or_null<ReduceOp>(op);
  return isa_and_nonnull<NormOp>(op) ||
         (reduce && reduce.getAxis() == ReduceAxis::Channels &&
          headsOf(reduce.getType()) != Axis::OneHead);
}

/// True where the value at any token is made of what is in memory, and of vectors.
static bool isKnownAnywhere(Value value) {
  bool known = true;
  walkBehind(value, [&](Value behind) {
    Operation *op = behind.getDefiningOp();
    if (!op || !isa<RankedTensorType>(behind.getType()))
      return false;
    known &= isOverChannels(op) || isa<VectorsOp, BroadcastOp>(op) ||
             op->hasTrait<OpTrait::Elementwise>();
    return true;
  });
  return known;
}

/// True for what tokens have of their own; the rest is the same for a whole head.
static bool differsByToken(Value value) {
  bool differs = false;
  walkBehind(value, [&](Value behind) {
    Operation *op = behind.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(behind.getType());
    if (!type)
      return false;
    differs |= op ? isa<VectorsOp, NormOp>(op)
                  : llvm::is_contained(axesOf(type), Axis::Past);
    return true;
  });
  return differs;
}

void ColumnsBuilder::reduceChannels(KernelBuilder &k, const SequenceScalars &s,
                                    const Point &point) {
  ofChannels.clear();
  // Of a head's rows a lane may have any of the tile's, or none.
  if (hasRow.valid())
    return;
  SmallVector<Value> wanted;
  for (Operation &op : kernel.getBody().front())
    if (isOverChannels(&op) && isKnownAnywhere(op.getResult(0)))
      wanted.push_back(op.getResult(0));
  if (wanted.empty())
    return;
  LaneNeeds all =
      laneNeeds(kernel, k.shape.group, wanted, [](Value) { return true; });
  LaneNeeds fixed, needs{all.sides, {}};
  for (auto [op, member] : all.reductions)
    (differsByToken(op->getResult(0)) ? needs : fixed)
        .reductions.push_back({op, member});
  lanes.emplace(k, warps * warpSize);
  channelsPoint = point;
  LeafReader leaf = [&](Value value, const Point &p) -> std::optional<Expr> {
    if (std::optional<Expr> known = lanes->find(value, p))
      return known;
    auto it = ofChannels.find({value.getDefiningOp(), p.member});
    if (it != ofChannels.end()) // the same for all tokens
      return it->second;
    return readInput(k, s, site, value, p);
  };
  LaneHead head{s, point.kvHead, leaf};
  auto tokenOf = [&](Expr lane) { return clamp(k, tileStart + lane, s.past); };
  if (!fixed.reductions.empty()) {
    LaneToken any(lanes->rows, head, point.token);
    any.make(fixed, any.load(fixed));
    for (auto [op, member] : fixed.reductions)
      ofChannels[{op, member}] = withRoot(k, op, any.beforeRoot(op, member));
  }
  constexpr int64_t inFlight = 16;
  Values made = lanes->ofLanes(head, tokenOf, needs, inFlight);
  for (auto [reduction, value] : llvm::zip(needs.reductions, made))
    ofChannels[reduction] = withRoot(k, reduction.first, value);
}

std::optional<Expr> ColumnsBuilder::readChannels(Value value,
                                                 const Point &p) const {
  auto it = ofChannels.find({value.getDefiningOp(), p.member});
  bool own = it != ofChannels.end() && p.token.valid() && p.kvHead.valid() &&
             Value(p.token) == Value(channelsPoint.token) &&
             Value(p.kvHead) == Value(channelsPoint.kvHead);
  return own ? std::optional(it->second) : std::nullopt;
}
