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
static void takeBranch(IRRewriter &rewriter, scf::IfOp choice, Block *taken) {
  if (!taken)
    return rewriter.eraseOp(choice);
  Operation *yield = taken->getTerminator();
  rewriter.inlineBlockBefore(taken, choice);
  rewriter.replaceOp(choice, yield->getOperands());
  rewriter.eraseOp(yield);
}

namespace {

struct RollStreamsPass : public kvc::impl::RollStreamsBase<RollStreamsPass> {
  using RollStreamsBase::RollStreamsBase;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation().walk([&](scf::IfOp choice) {
      if (choice.getCondition().getDefiningOp<simt::OneByOneOp>())
        takeBranch(rewriter, choice,
                   writtenOut ? choice.elseBlock() : choice.thenBlock());
    });
    getOperation().walk([&](simt::OneByOneOp op) {
      if (op->use_empty())
        return rewriter.eraseOp(op);
      rewriter.setInsertionPoint(op); // it is not a condition alone
      rewriter.replaceOpWithNewOp<arith::ConstantIntOp>(op, !writtenOut,
                                                        /*width=*/1);
    });
    // Of the walk that is gone.
    getOperation().walk([](memref::AllocaOp op) {
      if (op->use_empty())
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
