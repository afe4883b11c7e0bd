//===- PruneNorms.cpp - kvc-prune-norms -----------------------------------===//
//
// A top-k by x * N, N a norm behind the output projection, needs N only where
// it can decide. With a cheap bound U of N:
//
//   first  the count best by x * U; their smallest exact x * N is a threshold
//          that at least count tokens reach
//   then   exact norms of the others whose x * U reaches the threshold; no other
//          token can be among the count best, since its x * N is at most its x * U
//
// A token that a select gives +inf is kept with and without the pass. NaN is
// compared as if it reached every threshold, so that it is computed and ranked
// as without the pass.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

#include "mlir/IR/Matchers.h"

namespace kvc {
#define GEN_PASS_DEF_PRUNENORMS
#include "passes/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

/// topk(select(forced, +inf, mul(x, reduce group (norm)))); the select is
/// optional.
struct Product {
  TopkOp topk;
  arith::SelectOp forced; // null if nothing is forced
  arith::MulFOp product;
  Value factor; // x
  ReduceOp group;
  ProjectedNormOp norm;
};

bool isPositiveInfinity(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  llvm::APFloat number(0.0f);
  return broadcast &&
         matchPattern(broadcast.getValue(), m_ConstantFloat(&number)) &&
         number.isInfinity() && !number.isNegative();
}

std::optional<Product> match(TopkOp topk) {
  Product p{topk, topk.getScore().getDefiningOp<arith::SelectOp>(), {}, {}, {},
            {}};
  Value score = topk.getScore();
  if (p.forced) {
    if (!isPositiveInfinity(p.forced.getTrueValue()) || !p.forced->hasOneUse())
      return std::nullopt;
    score = p.forced.getFalseValue();
  }
  p.product = score.getDefiningOp<arith::MulFOp>();
  if (!p.product || !p.product->hasOneUse())
    return std::nullopt;
  for (int side : {0, 1}) {
    p.group = p.product->getOperand(side).getDefiningOp<ReduceOp>();
    if (!p.group || p.group.getAxis() != ReduceAxis::Group ||
        !p.group->hasOneUse())
      continue;
    p.norm = p.group.getValue().getDefiningOp<ProjectedNormOp>();
    if (!p.norm || p.norm.getKind() != NormKind::L1 || p.norm.getBound() ||
        p.norm.getWhere() || !p.norm->hasOneUse())
      continue;
    p.factor = p.product->getOperand(1 - side);
    return p;
  }
  return std::nullopt;
}

void rewrite(Product &p) {
  OpBuilder builder(p.topk);
  Location loc = p.topk.getLoc();
  Type scores = p.topk.getScore().getType(), masks = p.topk.getType();
  Type perHead =
      RankedTensorType::get({ShapedType::kDynamic}, builder.getF32Type());
  auto fill = [&](double number) -> Value {
    Value constant = arith::ConstantOp::create(
        builder, loc, builder.getF32FloatAttr(float(number)));
    return BroadcastOp::create(builder, loc, scores, constant);
  };
  auto select = [&](Value mask, Value yes, Value no) -> Value {
    return arith::SelectOp::create(builder, loc, mask, yes, no);
  };
  Value infinity = fill(std::numeric_limits<double>::infinity());
  auto force = [&](Value score) {
    return p.forced ? select(p.forced.getCondition(), infinity, score) : score;
  };
  // x * N for a form of the norm.
  auto product = [&](ProjectedNormOp norm) -> Value {
    Value group = ReduceOp::create(builder, loc, scores, p.group.getKind(),
                                   ReduceAxis::Group, norm);
    return arith::MulFOp::create(builder, loc, p.factor, group);
  };
  auto exact = [&](Value where) {
    if (p.forced) // its norm does not matter
      where = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                    p.forced.getCondition(), where);
    return product(ProjectedNormOp::create(builder, loc, scores,
                                           p.norm.getKind(), /*bound=*/false,
                                           where, /*gram=*/ValueRange(),
                                           /*list=*/ValueRange()));
  };

  Value upper =
      product(ProjectedNormOp::create(builder, loc, scores, p.norm.getKind(),
                                      /*bound=*/true, /*where=*/Value(),
                                      /*gram=*/ValueRange(),
                                      /*list=*/ValueRange()));
  // Where x is negative, 0 bounds x * N.
  upper = arith::MaximumFOp::create(builder, loc, upper, fill(0));
  upper = force(upper);
  Value first = TopkOp::create(builder, loc, masks, upper, p.topk.getCount(),
                               /*candidates=*/ValueRange());
  Value ofFirst = exact(first);
  Value known = select(first, force(ofFirst), infinity);
  Value least = ReduceOp::create(builder, loc, perHead, ReduceKind::Min,
                                 ReduceAxis::Tokens, known);
  Value threshold = BroadcastOp::create(builder, loc, scores, least);
  Value reaches = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UGE,
                                        upper, threshold);
  Value others = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                       first, reaches);
  Value lowest = fill(-std::numeric_limits<double>::infinity());
  Value score =
      force(select(first, ofFirst, select(others, exact(others), lowest)));
  p.topk.getScoreMutable().assign(score);
}

struct PruneNormsPass : public kvc::impl::PruneNormsBase<PruneNormsPass> {
  void runOnOperation() override {
    SmallVector<Product> found;
    getOperation().walk([&](TopkOp topk) {
      if (std::optional<Product> p = match(topk))
        found.push_back(*p);
    });
    for (Product &p : found) {
      rewrite(p);
      // Users before what they use.
      for (Operation *op : {p.forced ? p.forced.getOperation() : nullptr,
                            p.product.getOperation(), p.group.getOperation(),
                            p.norm.getOperation()})
        if (op && op->use_empty())
          op->erase();
    }
  }
};

} // namespace
