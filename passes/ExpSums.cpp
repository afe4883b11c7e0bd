//===- ExpSums.cpp - sums of exponentials below a maximum -----------------===//
//
// exp(x - max of x), summed over tokens, waits for the maximum: kernels that reduce both
// read x one behind the other. But a sum below the maximum of some tokens is one below that
// of all by a factor, so both are made of the same parts, by one kernel. Nothing is asked of
// what else is made of either.
//
//===----------------------------------------------------------------------===//

#include "passes/ExpSums.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace kvc;

/// The combined maximum of x where `sum` is one over tokens of exp(x - that).
static CombinePartsOp maximumBelow(CombinePartsOp sum) {
  auto parts = sum.getParts().getDefiningOp<ReducePartOp>();
  if (!parts || sum.getKind() != ReduceKind::Sum)
    return {};
  auto exp = parts.getValue().getDefiningOp<math::ExpOp>();
  auto below = exp ? exp.getOperand().getDefiningOp<arith::SubFOp>() : nullptr;
  auto every = below ? below.getRhs().getDefiningOp<BroadcastOp>() : nullptr;
  auto most =
      every ? every.getValue().getDefiningOp<CombinePartsOp>() : nullptr;
  auto of = most ? most.getParts().getDefiningOp<ReducePartOp>() : nullptr;
  bool same = of && most.getKind() == ReduceKind::Max &&
              of.getValue() == below.getLhs();
  return same ? most : CombinePartsOp();
}

void kvc::joinExpSums(PolicyOp policy) {
  SmallVector<CombinePartsOp> sums;
  for (auto sum : policy.getBody().front().getOps<CombinePartsOp>())
    if (maximumBelow(sum))
      sums.push_back(sum);
  for (CombinePartsOp sum : sums) {
    CombinePartsOp most = maximumBelow(sum);
    if (!most) // of two sums below one maximum
      continue;
    auto parts = most.getParts().getDefiningOp<ReducePartOp>();
    OpBuilder builder(most);
    auto both = ExpSumPartOp::create(builder, sum.getLoc(), parts.getType(),
                                     parts.getType(), parts.getValue());
    auto combined =
        CombineExpSumsOp::create(builder, sum.getLoc(), most.getType(),
                                 sum.getType(), both.getMost(), both.getSum());
    most.getResult().replaceAllUsesWith(combined.getMost());
    sum.getResult().replaceAllUsesWith(combined.getSum());
  }
  // Users before what they use.
  Block &body = policy.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (!sums.empty() && isOpTriviallyDead(&op))
      op.erase();
}
