//===- RollStreams.cpp - kvc-roll-streams ----------------------------------===//

#include "codegen/Passes.h"

namespace kvc {
#define GEN_PASS_DEF_ROLLSTREAMS
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

/// The loop over what is left behind the steps of `stream`; null: none.
static scf::ForOp restOf(scf::ForOp stream) {
  for (Operation *op = stream->getNextNode(); op; op = op->getNextNode())
    if (auto loop = dyn_cast<scf::ForOp>(op);
        loop && loop->hasAttr("kvc.stream_rest") &&
        loop.getLowerBound() == stream.getUpperBound())
      return loop;
  return {};
}

/// What stands in one branch, in the place of both; null: nothing does.
static void takeBranch(scf::IfOp choice, Block *taken) {
  if (taken) {
    Operation *yield = taken->getTerminator();
    choice.replaceAllUsesWith(yield->getOperands());
    yield->erase();
    choice->getBlock()->getOperations().splice(choice->getIterator(),
                                               taken->getOperations());
  }
  choice.erase();
}

namespace {

struct RollStreamsPass : public kvc::impl::RollStreamsBase<RollStreamsPass> {
  using RollStreamsBase::RollStreamsBase;

  void runOnOperation() override {
    getOperation().walk([&](scf::IfOp choice) {
      if (choice.getCondition().getDefiningOp<simt::OneByOneOp>())
        takeBranch(choice,
                   writtenOut ? choice.elseBlock() : choice.thenBlock());
    });
    getOperation().walk([&](simt::OneByOneOp op) {
      OpBuilder builder(op); // where it is no condition
      op.replaceAllUsesWith(arith::ConstantIntOp::create(
                                builder, op.getLoc(), !writtenOut, /*width=*/1)
                                .getResult());
      op.erase();
    });
    if (writtenOut)
      return;
    getOperation().walk([](scf::ForOp stream) {
      scf::ForOp rest =
          stream->hasAttr("kvc.stream") ? restOf(stream) : scf::ForOp();
      if (!rest)
        return;
      rest.setLowerBound(stream.getLowerBound());
      stream.replaceAllUsesWith(stream.getInitArgs());
      stream.erase();
    });
  }
};

} // namespace
