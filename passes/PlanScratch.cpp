//===- PlanScratch.cpp - kvc-plan-scratch ---------------------------------===//

#include "passes/Clearing.h"
#include "passes/Passes.h"
#include "passes/RankedScores.h"

namespace kvc {
#define GEN_PASS_DEF_PLANSCRATCH
#include "passes/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

/// What a kernel yields as one of its results.
Value yielded(KernelOp kernel, Value result) {
  auto yield = cast<YieldOp>(kernel.getBody().front().getTerminator());
  return yield.getValues()[cast<OpResult>(result).getResultNumber()];
}

/// The lists of the last kernel but one are the policy's outputs, not scratch.
bool isOutput(KernelOp kernel, Value result) {
  return yielded(kernel, result).getDefiningOp<ListKeptOp>() != nullptr;
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
        unsigned first = at;
        if (isAddedTo(yielded(kernel, result)))
          first = order.lookup(clearingKernel(kernel));
        buffers.push_back(BufferAttr::get(&getContext(), next++, first, last));
      }
      kernel.setBuffersAttr(buffers.empty()
                                ? ArrayAttr() // it may have been read
                                : ArrayAttr::get(&getContext(), buffers));
      kernel.getBody().walk([&](ScratchOpInterface op) {
        unsigned last = op.outlivesPolicy() ? order.size() - 1 : at;
        op.setBufferAttr(BufferAttr::get(&getContext(), next++, at, last));
      });
    }
  }
};

} // namespace
