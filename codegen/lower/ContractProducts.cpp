//===- ContractProducts.cpp - kvc-contract-products ------------------------===//
//
// What may be contracted is contracted here, by one rule, and nobody behind it is
// asked: PTX and both forms of the host round alike.
//
//===----------------------------------------------------------------------===//

#include "codegen/Passes.h"

#include "mlir/IR/PatternMatch.h"

namespace kvc {
#define GEN_PASS_DEF_CONTRACTPRODUCTS
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

static bool mayContract(arith::ArithFastMathInterface op) {
  return bitEnumContainsAll(op.getFastMathFlagsAttr().getValue(),
                            arith::FastMathFlags::contract);
}

/// The product that `sum` may take in; null: there is none. One of another block is
/// there already, and taking it in would save nothing.
static arith::MulFOp productFor(Operation *sum, Value operand) {
  auto product = operand.getDefiningOp<arith::MulFOp>();
  return product && product->getBlock() == sum->getBlock() &&
                 mayContract(product)
             ? product
             : arith::MulFOp();
}

static int64_t usesOf(arith::MulFOp product) {
  return std::distance(product->use_begin(), product->use_end());
}

/// Of two products that with fewer uses, which is the likelier to be gone; else the
/// first.
static bool takesFirst(arith::MulFOp first, arith::MulFOp second) {
  return first && (!second || usesOf(first) <= usesOf(second));
}

static void contract(Operation *sum, IRRewriter &rewriter) {
  arith::MulFOp first = productFor(sum, sum->getOperand(0)),
                second = productFor(sum, sum->getOperand(1));
  if (!first && !second)
    return;
  bool takesIn = takesFirst(first, second), subtracts = isa<arith::SubFOp>(sum);
  arith::MulFOp product = takesIn ? first : second;
  rewriter.setInsertionPoint(sum);
  auto negated = [&](Value x) -> Value {
    return arith::NegFOp::create(rewriter, sum->getLoc(), x);
  };
  Value factor = product.getLhs(), added = sum->getOperand(takesIn ? 1 : 0);
  if (subtracts)
    (takesIn ? added : factor) = negated(takesIn ? added : factor);
  rewriter.replaceOpWithNewOp<math::FmaOp>(sum, factor, product.getRhs(),
                                           added);
  for (arith::MulFOp one : {first, second == first ? nullptr : second})
    if (one && one->use_empty())
      rewriter.eraseOp(one);
}

namespace {

struct ContractProductsPass
    : public kvc::impl::ContractProductsBase<ContractProductsPass> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation().walk([&](Operation *op) {
      if (isa<arith::AddFOp, arith::SubFOp>(op) &&
          mayContract(cast<arith::ArithFastMathInterface>(op)))
        contract(op, rewriter);
    });
    getOperation().walk([](arith::ArithFastMathInterface op) {
      op->setAttr(op.getFastMathAttrName(),
                  arith::FastMathFlagsAttr::get(op->getContext(),
                                                arith::FastMathFlags::none));
    });
  }
};

} // namespace
