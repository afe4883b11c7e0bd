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

/// The larger or smaller of two numbers, the other one where one is NaN: no
/// target has an instruction for it that needs no library.
template <typename Op, typename Propagating>
struct ExpandNumber : public OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Value a = op.getLhs(), b = op.getRhs();
    auto isNaN = [&](Value x) {
      return arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::UNO, x,
                                   x);
    };
    Value both = Propagating::create(rewriter, loc, a, b);
    Value first =
        arith::SelectOp::create(rewriter, loc, isNaN(b), a, both);
    rewriter.replaceOpWithNewOp<arith::SelectOp>(op, isNaN(a), b, first);
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
    patterns.add<ExpandRsqrt,
                 ExpandNumber<arith::MaxNumFOp, arith::MaximumFOp>,
                 ExpandNumber<arith::MinNumFOp, arith::MinimumFOp>>(
        &getContext());
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
