//===- ExpandMath.cpp - kvc-expand-math -----------------------------------===//

#include "codegen/edsl/Expr.h"
#include "codegen/lower/RewriteRoots.h"
#include "codegen/Passes.h"

#include "mlir/Dialect/Math/Transforms/Passes.h"

#include <cmath>

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

/// |x| of an integer; of the smallest one it is that number.
struct ExpandAbsI : public OpRewritePattern<math::AbsIOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::AbsIOp op,
                                PatternRewriter &rewriter) const override {
    Value x = op.getOperand();
    Value zero = arith::ConstantOp::create(
        rewriter, op.getLoc(), rewriter.getIntegerAttr(op.getType(), 0));
    Value negative = arith::SubIOp::create(rewriter, op.getLoc(), zero, x);
    rewriter.replaceOpWithNewOp<arith::MaxSIOp>(op, x, negative);
    return success();
  }
};

/// x to the power of y as IEEE 754 has it: 1 where y is 0 or x is 1, NaN for finite
/// negative numbers to a power that is not whole. exp2(y * log2|x|) has an error of
/// about |y * log2 x| units.
struct ExpandPower : public OpRewritePattern<math::PowFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::PowFOp op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Expr x(b, op.getLhs()), y(b, op.getRhs());
    Expr zero = x.same(0), one = x.same(1);
    auto floorOf = [](Expr value) { return value.unary<math::FloorOp>(); };
    Expr size = x.unary<math::AbsFOp>();
    Expr power = (y * size.unary<math::Log2Op>()).unary<math::Exp2Op>();
    Expr whole = floorOf(y) == y;
    Expr half = y * x.same(0.5);
    Expr odd = whole & (floorOf(half) < half);
    // Also of -0: the sign is that of x.
    Expr signedPower = odd.select(power.binary<math::CopySignOp>(x), power);
    Expr finite = size < x.same(INFINITY);
    Expr root = (x < zero) & finite & (floorOf(y) < y);
    Expr result = root.select(x.same(NAN), signedPower);
    // |x| = 1 to any power that is no NaN, infinite ones among them.
    Expr unit = (size == one) & (y.unary<math::AbsFOp>() == y.same(INFINITY));
    result = unit.select(one, result);
    Expr sure = (y == zero) | (x == one);
    rewriter.replaceOp(op, Value(sure.select(one, result)));
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
    Value first = arith::SelectOp::create(rewriter, loc, isNaN(b), a, both);
    rewriter.replaceOpWithNewOp<arith::SelectOp>(op, isNaN(a), b, first);
    return success();
  }
};

/// A float to one bit, by way of 32: LLVM's NVPTX backend takes any number but 0 for
/// false and 0 for true.
template <typename Op> struct WidenBit : public OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!op.getType().isInteger(1))
      return failure();
    Value wide =
        Op::create(rewriter, op.getLoc(), rewriter.getI32Type(), op.getIn());
    rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, op.getType(), wide);
    return success();
  }
};

bool isLeftToTargets(Operation *op) {
  return isa<math::SqrtOp, math::AbsFOp, math::FmaOp, math::CopySignOp,
             math::CtPopOp, math::FloorOp, math::CeilOp, math::RoundEvenOp>(op);
}

struct ExpandMathPass : public kvc::impl::ExpandMathBase<ExpandMathPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpandRsqrt, ExpandAbsI, ExpandPower,
                 ExpandNumber<arith::MaxNumFOp, arith::MaximumFOp>,
                 ExpandNumber<arith::MinNumFOp, arith::MinimumFOp>,
                 WidenBit<arith::FPToUIOp>, WidenBit<arith::FPToSIOp>>(
        &getContext());
    math::populateExpansionPatterns(patterns, {"exp2"});
    auto all = [](StringRef) { return true; };
    populateMathF32ExpansionPatterns(patterns, all);
    populateMathPolynomialApproximationPatterns(patterns, all);
    if (failed(rewriteRoots(getOperation(), std::move(patterns))))
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
