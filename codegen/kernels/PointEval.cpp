//===- PointEval.cpp - a kernel's body at one point -----------------------===//

#include "codegen/kernels/PointEval.h"

#include "codegen/kernels/KeptLayers.h"
#include "codegen/kernels/KeyPrefixes.h"
#include "codegen/kernels/RowStates.h"
#include "codegen/kernels/ScalarOps.h"

using namespace mlir;
using namespace kvc;

Expr kvc::positionOf(KernelBuilder &k, const SequenceScalars &s, Expr head,
                     Expr row) {
  return HeadRows(k, s.sequence, head, s.length).position(row);
}

Expr kvc::positionOf(KernelBuilder &k, const SequenceScalars &s,
                     const Point &point) {
  if (!k.shape.hasRows() || !point.kvHead.valid() || s.rowsArePositions)
    return point.token;
  return HeadRows(k, s.sequence, point.kvHead, s.length)
      .positionInside(point.token);
}

Expr PointEval::operator()(Value value, int member) {
  if (headsOf(value.getType()) != Axis::QueryHeads)
    member = -1;
  auto key = std::make_pair(value, member);
  if (auto it = known.find(key); it != known.end())
    return it->second;
  Expr result = isFromOutside(value) ? madeOutside(value, member)
                                     : compute(value, member);
  known[key] = result;
  return result;
}

bool PointEval::isFromOutside(Value value) const {
  if (!outside)
    return false;
  bool heads = outside->looped == Axis::KVHeads;
  return heads ? headsOf(value.getType()) == Axis::OneHead
               : !llvm::is_contained(axesOf(value.getType()), outside->looped);
}

void PointEval::goOutside() {
  if (Block *here = k.b.getInsertionBlock(); here != outside->block)
    k.b.setInsertionPoint(
        outside->block->findAncestorOpInBlock(*here->getParentOp()));
}

Expr PointEval::madeOutside(Value value, int member) {
  OpBuilder::InsertionGuard guard(k.b);
  goOutside();
  return (*outside->eval)(value, member);
}

Expr PointEval::compute(Value value, int member) {
  Point at = point;
  at.member = member;
  if (std::optional<Expr> stored = leaf(value, at))
    return *stored;
  Operation *op = value.getDefiningOp();
  assert(op && "kernel argument without a leaf");
  if (!isa<RankedTensorType>(value.getType()))
    return evalScalar(k, s, value);
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    Expr inner = (*this)(broadcast.getValue(), member);
    if (!inner.type().isIndex())
      return inner;
    Type wanted = cast<RankedTensorType>(value.getType()).getElementType();
    Expr word = lowestWord(k, inner, broadcast.getValue());
    return wanted.isF32() ? word.toFloat() : word;
  }
  if (auto reduce = dyn_cast<ReduceOp>(op))
    switch (reduce.getAxis()) {
    case ReduceAxis::Channels:
      return reduceChannels(reduce, member);
    case ReduceAxis::Members:
      return reduceMembers(reduce);
    default:
      return reduceHeads(reduce);
    }
  if (auto vectors = dyn_cast<VectorsOp>(op))
    return k
        .load(sideBuffer(k, vectors.getSide()),
              {s.sequence, point.kvHead, point.token, point.channel})
        .widen();
  if (auto pooled = dyn_cast<PoolOp>(op))
    return pool(pooled, member);
  if (auto norms = dyn_cast<NormOp>(op))
    return norm(norms);
  if (auto position = dyn_cast<PositionOp>(op)) {
    bool row = position.getRow();
    Expr own = row ? point.token : positionOf(k, s, point);
    Expr all = row ? s.rows : s.length;
    return (position.getFromEnd() ? all - 1 - own : own).toI32();
  }
  if (auto kept = dyn_cast<KeptLayersOp>(op)) {
    Expr token = positionOf(k, s, point);
    Expr count = keptLayers(k, s, token).toFloat();
    return kept.getShare() ? count / (k.arg("layer") + 1).toFloat() : count;
  }
  if (auto state = dyn_cast<RowStateOp>(op))
    return readRowState(k, s, state, point.kvHead, point.token);
  if (auto prefix = dyn_cast<KeyPrefixOp>(op))
    return keyPrefix(k, (*this)(prefix.getScore(), member));
  if (isa<AllocateOp>(op))
    return (s.budget - s.window).toI32();
  if (auto count = dyn_cast<CountRowsOp>(op))
    return (count.getAll() ? s.rows : s.past).toI32();
  if (isa<AllocateLayersOp>(op)) {
    Expr share = s.shares.lookup(op);
    return k.shape.hasRows() ? share + s.unused.toI32() : share;
  }
  if (auto scale = dyn_cast<ScaleCountOp>(op)) {
    auto [numerator, denominator] = scale.getFactor();
    Expr count = atLeastNone(k, (*this)(scale.getCount(), member).toIndex(),
                             scale.getCount());
    return (count * numerator / denominator).toI32();
  }
  if (Expr quotient = scaledQuotient(op, member); quotient.valid())
    return quotient;
  return cloneScalar(op, member);
}

Expr PointEval::scaledQuotient(Operation *op, int member) {
  auto divide = dyn_cast<arith::DivFOp>(op);
  if (!divide || !isa<RankedTensorType>(divide.getType()))
    return {};
  auto isVector = [](Value value) {
    return llvm::is_contained(axesOf(value.getType()), Axis::Channel);
  };
  auto divisor = divide.getRhs().getDefiningOp<BroadcastOp>();
  if (!divisor || !isVector(divisor) ||
      !isa<RankedTensorType>(divisor.getValue().getType()) ||
      isVector(divisor.getValue()))
    return {};
  Expr dividend = (*this)(divide.getLhs(), member);
  auto [scale, inverse] = inverseOf(divisor.getValue(), member);
  return dividend * scale * inverse;
}

std::pair<Expr, Expr> PointEval::inverseOf(Value value, int member) {
  if (headsOf(value.getType()) != Axis::QueryHeads)
    member = -1;
  auto key = std::make_pair(value, member);
  if (auto it = inverses.find(key); it != inverses.end())
    return it->second;
  std::pair<Expr, Expr> result;
  if (isFromOutside(value)) {
    OpBuilder::InsertionGuard guard(k.b);
    goOutside();
    result = outside->eval->inverseOf(value, member);
  } else {
    result = scaledInverse(k, (*this)(value, member));
  }
  inverses[key] = result;
  return result;
}

/// An elementwise op of arith or math, on scalars.
Expr PointEval::cloneScalar(Operation *op, int member) {
  OperationState state(op->getLoc(), op->getName());
  for (Value operand : op->getOperands())
    state.addOperands(Value((*this)(operand, member)));
  for (Type type : op->getResultTypes())
    state.addTypes(cast<RankedTensorType>(type).getElementType());
  state.addAttributes(op->getAttrs());
  Operation *scalar = k.b.create(state);
  guardOperands(k, scalar);
  return k.expr(scalar->getResult(0));
}
