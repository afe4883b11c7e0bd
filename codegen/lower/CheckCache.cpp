//===- CheckCache.cpp - what policies cannot do with a cache of rows ------===//

#include "codegen/lower/CheckCache.h"

using namespace mlir;
using namespace kvc;

static bool hasTokens(Type type) {
  return isa<RankedTensorType>(type) && axesOf(type).size() > 1;
}

/// What an op would need that no kernel has; empty for none.
static StringRef missingFor(Operation *op, const Shape &shape) {
  if (auto reduce = dyn_cast<ReduceOp>(op);
      reduce && reduce.getAxis() == ReduceAxis::Heads &&
      hasTokens(reduce.getValue().getType()))
    return "a token's rows in all heads";
  if (isa<NearestOp, MergeOp, ListMembersOp>(op))
    return "merged rows";
  bool raw = llvm::is_contained(needsOf(op).inputs, EngineInput::RawKeys);
  if (raw && shape.cache == CacheKind::Paged)
    return "pages of keys before RoPE";
  if (auto kernel = dyn_cast<KernelOp>(op))
    for (Value output : kernel.getOutputs())
      if (isa<RankedTensorType>(output.getType()) &&
          headsOf(output.getType()) == Axis::OneHead)
        return "one value for all heads between kernels";
  return {};
}

LogicalResult kvc::checkCache(PolicyOp policy, const Shape &shape) {
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
