//===- CheckCache.cpp - what policies cannot do with a cache of rows ------===//

#include "codegen/lower/CheckCache.h"

#include "dialect/Behind.h"

using namespace mlir;
using namespace kvc;

/// One value of a token for all heads. In a cache of rows it is known by the token's
/// true position.
static bool isOfAllHeads(Value value) {
  AxisList axes = axesOf(value.getType());
  return axes.size() > 1 && axes.front() == Axis::OneHead;
}

/// Of all heads' tokens only the largest and the smallest can be told: several heads
/// have rows of one token. A block walks the others' rows too, and has stored none.
static bool hasStatisticOfAll(ReduceOp reduce) {
  bool can = reduce.getKind() == ReduceKind::Max ||
             reduce.getKind() == ReduceKind::Min;
  walkBehind(reduce.getValue(), [&](Value behind) {
    can &= !isa_and_nonnull<StoreOp>(behind.getDefiningOp());
    return true;
  });
  return can;
}

/// What an op would need of a cache of rows that no kernel has; empty for none.
static StringRef missingFor(Operation *op, const Shape &shape) {
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    AxisList axes = axesOf(reduce.getValue().getType());
    if (reduce.getAxis() == ReduceAxis::Heads && axes.size() == 3 &&
        axes[1] == Axis::Channel)
      return "vectors of a token in all heads";
    if (reduce.getAxis() == ReduceAxis::Tokens &&
        isOfAllHeads(reduce.getValue()) && !hasStatisticOfAll(reduce))
      return "such statistic over the tokens of all heads";
  }
  if (isa<PoolOp, SegmentOp>(op) && isOfAllHeads(op->getOperand(0)))
    return "neighbours of a token of all heads";
  bool merged = shape.isMerged();
  if (isa<NearestOp, MergeOp, ListMembersOp>(op) && !merged)
    return "merged rows";
  if (isa<CompactOp>(op) && merged)
    return "way to keep members without kvc.keep merge";
  auto attention = dyn_cast<AttentionOp>(op);
  bool ofKeys = llvm::is_contained(needsOf(op).inputs, EngineInput::Keys) &&
                !op->getParentOfType<KernelOp>().getOfMembers();
  if (merged && ofKeys && !isa<CompactOp>(op))
    return attention ? "attention but that of members" : "keys after RoPE";
  bool raw = llvm::is_contained(needsOf(op).inputs, EngineInput::RawKeys);
  if (raw && shape.cache == CacheKind::Paged)
    return "pages of keys before RoPE";
  return {};
}

/// What only a merged cache has.
static LogicalResult checkMembers(PolicyOp policy, const Shape &shape) {
  WalkResult result = policy.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto list = dyn_cast<ListMembersOp>(op);
    bool table = list && list.getAtMost();
    if (!table && !llvm::is_contained(needsOf(op).inputs, EngineInput::Members))
      return WalkResult::advance();
    op->emitOpError("needs cache=merged, got cache=") << shape.cacheName();
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// RoPE turns the halves of a key against each other.
static LogicalResult checkTurned(PolicyOp policy, const Shape &shape) {
  WalkResult result = policy.walk([&](MemberKeysOp op) {
    if (shape.headDim % 2 == 0)
      return WalkResult::advance();
    op.emitOpError("needs an even head_dim, got ") << shape.headDim;
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult kvc::checkCache(PolicyOp policy, const Shape &shape) {
  if (failed(checkTurned(policy, shape)))
    return failure();
  if (!shape.isMerged() && failed(checkMembers(policy, shape)))
    return failure();
  if (!shape.hasRows())
    return success();
  WalkResult result = policy.walk<WalkOrder::PreOrder>([&](Operation *op) {
    StringRef missing = missingFor(op, shape);
    if (missing.empty())
      return WalkResult::advance();
    op->emitOpError("cannot be compiled for cache=")
        << shape.cacheName() << ", which has no " << missing << " yet";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}
