//===- FoldScalars.cpp - kvc-fold-scalars ---------------------------------===//
//
// Upstream's canonicalizer folds tensors too, to constants of extents that
// nobody knows.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

#include "mlir/Transforms/FoldUtils.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace kvc {
#define GEN_PASS_DEF_FOLDSCALARS
#include "passes/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

bool isScalar(Operation *op) {
  return op->getNumRegions() == 0 &&
         llvm::none_of(op->getResultTypes(), llvm::IsaPred<TensorType>);
}

struct FoldScalarsPass : public kvc::impl::FoldScalarsBase<FoldScalarsPass> {
  void runOnOperation() override {
    Block &body = getOperation().getBody().front();
    if (isa<DoneOp>(body.back()))
      return; // fused: kernels have been formed of what there was
    OperationFolder folder(&getContext());
    for (Operation &op : llvm::make_early_inc_range(body))
      if (isScalar(&op))
        (void)folder.tryToFold(&op);
    // kvc.fill becomes a broadcast, and what nobody uses goes.
    RewritePatternSet patterns(&getContext());
    FillOp::getCanonicalizationPatterns(patterns, &getContext());
    GreedyRewriteConfig config;
    config.enableFolding(false);
    if (failed(
            applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      signalPassFailure();
  }
};

} // namespace
