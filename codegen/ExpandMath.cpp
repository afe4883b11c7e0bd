//===- ExpandMath.cpp - kvc-expand-math -----------------------------------===//

#include "codegen/Passes.h"

#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace kvc {
#define GEN_PASS_DEF_EXPANDMATH
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

/// 1 / sqrt(x), both exact to rounding.
struct ExpandRsqrt : public OpRewritePattern<math::RsqrtOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::RsqrtOp op,
                                PatternRewriter &rewriter) const override {
    Value root = math::SqrtOp::create(rewriter, op.getLoc(), op.getOperand());
    Value one = arith::ConstantOp::create(
        rewriter, op.getLoc(), rewriter.getFloatAttr(op.getType(), 1.0));
    rewriter.replaceOpWithNewOp<arith::DivFOp>(op, one, root);
    return success();
  }
};

bool isLeftToTargets(Operation *op) {
  return isa<math::SqrtOp, math::AbsFOp, math::AbsIOp, math::FmaOp,
             math::CopySignOp, math::CtPopOp, math::FloorOp, math::CeilOp,
             math::RoundEvenOp>(op);
}

struct ExpandMathPass : public kvc::impl::ExpandMathBase<ExpandMathPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpandRsqrt>(&getContext());
    math::populateExpansionPatterns(patterns, {"exp2", "powf"});
    auto all = [](StringRef) { return true; };
    populateMathF32ExpansionPatterns(patterns, all);
    populateMathPolynomialApproximationPatterns(patterns, all);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    WalkResult result = getOperation().walk([&](Operation *op) {
      if (!isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
          isLeftToTargets(op))
        return WalkResult::advance();
      op->emitError("no lowering for ") << op->getName();
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
