//===- PlanScratch.cpp - kvc-plan-scratch ---------------------------------===//

#include "passes/Passes.h"

namespace kvc {
#define GEN_PASS_DEF_PLANSCRATCH
#include "passes/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

/// Results of the last rows kernel are the policy's outputs, not scratch.
bool isOutput(KernelOp kernel, Value result) {
  auto yield = cast<YieldOp>(kernel.getBody().front().getTerminator());
  Value inner = yield.getValues()[cast<OpResult>(result).getResultNumber()];
  return inner.getDefiningOp<ListKeptOp>() != nullptr;
}

/// The stored scores that the last stage of the selection ranks; null where
/// they are staged in its own kernel. A caller may read them after the last
/// kernel.
Value rankedScores(PolicyOp policy) {
  TopkOp last;
  policy.walk([&](TopkOp topk) { last = topk; });
  auto arg = last ? dyn_cast<BlockArgument>(last.getScore()) : BlockArgument();
  if (!arg)
    return {};
  return cast<KernelOp>(last->getParentOp()).getInputs()[arg.getArgNumber()];
}

struct PlanScratchPass : public kvc::impl::PlanScratchBase<PlanScratchPass> {
  void runOnOperation() override {
    PolicyOp policy = getOperation();
    llvm::DenseMap<Operation *, unsigned> order;
    for (auto kernel : policy.getOps<KernelOp>())
      order.try_emplace(kernel, order.size());

    Value ranked = rankedScores(policy);
    unsigned next = 0;
    for (auto kernel : policy.getOps<KernelOp>()) {
      unsigned at = order[kernel];
      SmallVector<Attribute> buffers;
      for (Value result : kernel.getOutputs()) {
        if (isOutput(kernel, result))
          continue;
        unsigned last = result == ranked ? order.size() - 1 : at;
        for (Operation *user : result.getUsers())
          last = std::max(last, order.lookup(user));
        buffers.push_back(BufferAttr::get(&getContext(), next++, at, last));
      }
      kernel->removeAttr("buffers"); // it may have been read
      if (!buffers.empty())
        kernel->setAttr("buffers", ArrayAttr::get(&getContext(), buffers));
      kernel.getBody().walk([&](Operation *op) {
        op->removeAttr("buffer");
        if (!isa<StageOp, ListMembersOp>(op))
          return;
        // The last stage is what was ranked: alive to the end, so that a
        // caller may read the scores.
        unsigned last = isa<StageOp>(op) ? order.size() - 1 : at;
        op->setAttr("buffer", BufferAttr::get(&getContext(), next++, at, last));
      });
    }
  }
};

} // namespace
