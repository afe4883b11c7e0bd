//===- PointEval.cpp - a kernel's body at one point -----------------------===//

#include "codegen/kernels/PointEval.h"

#include "codegen/kernels/Allocation.h"
#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/Reductions.h"
#include "codegen/kernels/RowStates.h"
#include "dialect/Behind.h"

#include "mlir/IR/IRMapping.h"

#include <cmath>

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// Gives a policy's op a result where the target would trap or have none: an
/// integer division by 0 divides by 1; a float outside the integers' range
/// becomes the outermost float in it, NaN 0. NaN has no sign, so that which NaN
/// an op makes does not matter.
static void guardOperands(KernelBuilder &k, Operation *op) {
  OpBuilder::InsertionGuard guard(k.b);
  k.b.setInsertionPoint(op);
  if (isa<arith::DivUIOp, arith::RemUIOp, arith::CeilDivUIOp>(op)) {
    Expr divisor = k.expr(op->getOperand(1));
    op->setOperand(1, (divisor == 0).select(divisor.same(1), divisor));
  }
  if (isa<math::CopySignOp>(op)) {
    Expr sign = k.expr(op->getOperand(1));
    op->setOperand(1, sign.isNaN().select(sign.same(0), sign));
  }
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
    Type type = op->getResult(0).getType();
    unsigned bits = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
    bool isSigned = isa<arith::FPToSIOp>(op);
    double least = isSigned ? -std::ldexp(1.0, bits - 1) : 0;
    double above = std::ldexp(1.0, isSigned ? bits - 1 : bits);
    // The largest float below the first number that does not fit.
    double most = bits == 1 ? above - 1 : above * (1 - 0x1p-24);
    Expr x = k.expr(op->getOperand(0));
    Expr number = x.isNaN().select(x.same(0), x);
    op->setOperand(0, number.max(x.same(least)).min(x.same(most)));
  }
}

/// True for counts that no arithmetic can have brought below 0.
static bool isNeverNegative(Value value) {
  bool never = true;
  walkBehind(value, [&](Value behind) {
    Operation *op = behind.getDefiningOp(); // null: of another kernel
    if (isa_and_nonnull<BudgetOp, LengthOp, NewQueriesOp, SinceOp, LayerOp,
                        LayersOp, AllocateOp, AllocateLayersOp, AllocateHeadsOp,
                        AllocateTableOp, CountMassOp, CountRowsOp,
                        ScaleCountOp>(op))
      return false;
    bool constant = isa_and_nonnull<arith::ConstantOp>(op);
    bool keeps =
        isa_and_nonnull<arith::AddIOp, arith::MulIOp, arith::DivUIOp,
                        arith::CeilDivUIOp, arith::RemUIOp, arith::MinSIOp,
                        arith::IndexCastOp, BroadcastOp>(op);
    never &= keeps || (constant && constantOf(behind) >= 0);
    return keeps;
  });
  return never;
}

Expr kvc::atLeastNone(KernelBuilder &k, Expr count, Value source) {
  return isNeverNegative(source) ? count : count.max(k.index(0));
}

/// `known`: what has been evaluated, which may be an operand many times over.
static Expr evalScalar(KernelBuilder &k, const SequenceScalars &s, Value value,
                       llvm::DenseMap<Value, Value> &known);

static Expr computeScalar(KernelBuilder &k, const SequenceScalars &s,
                          Value value, llvm::DenseMap<Value, Value> &known) {
  Operation *op = value.getDefiningOp();
  if (isa<BudgetOp>(op))
    return s.budget;
  if (isa<LengthOp>(op))
    return s.length;
  if (isa<NewQueriesOp>(op))
    return k.load(k.buffer("new_queries", {}), {s.sequence})
        .toIndex()
        .max(k.index(0))
        .min(s.length);
  if (isa<SinceOp>(op))
    return k.choose(
        k.arg("since_given") > 0,
        [&] {
          return Values{k.load(k.buffer("since", {}), {s.sequence})
                            .toIndex()
                            .max(k.index(0))};
        },
        [&] { return Values{k.index(0)}; })[0];
  if (isa<LayerOp>(op))
    return k.arg("layer");
  if (isa<LayersOp>(op))
    return k.arg("layers");
  if (auto scale = dyn_cast<ScaleCountOp>(op)) {
    auto [numerator, denominator] = scale.getFactor();
    Expr count = atLeastNone(k, evalScalar(k, s, scale.getCount(), known),
                             scale.getCount());
    return count * numerator / denominator;
  }
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, evalScalar(k, s, operand, known));
  Operation *clone = k.b.clone(*op, mapping);
  guardOperands(k, clone);
  return k.expr(clone->getResult(0));
}

static Expr evalScalar(KernelBuilder &k, const SequenceScalars &s, Value value,
                       llvm::DenseMap<Value, Value> &known) {
  if (Value found = known.lookup(value))
    return k.expr(found);
  Expr result = computeScalar(k, s, value, known);
  known[value] = result;
  return result;
}

Expr kvc::evalScalar(KernelBuilder &k, const SequenceScalars &s, Value value) {
  llvm::DenseMap<Value, Value> known;
  return ::evalScalar(k, s, value, known);
}

static Buffer stateBuffer(KernelBuilder &k) {
  return k.buffer("state", {k.arg("state_rows")});
}

/// The high half of the state says which layer has counted last: blocks of the
/// running layer may or may not have been here.
static Expr keptLayers(KernelBuilder &k, const SequenceScalars &s, Expr token) {
  Expr word = k.load(stateBuffer(k), {s.sequence, token});
  Expr counted = (word >> 16) == (k.arg("layer") + 1).toI32();
  return (word & 0xffff) - counted.toI32();
}

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

void kvc::countKept(KernelBuilder &k, const SequenceScalars &s, Expr head,
                    Expr row) {
  Expr token = positionOf(k, s, Point{head, -1, {}, row});
  Expr layer = (k.arg("layer") + 1).toI32() << 16;
  k.store(layer | (keptLayers(k, s, token) + 1), stateBuffer(k),
          {s.sequence, token});
}

Expr kvc::keepsAll(KernelBuilder &k, const SequenceScalars &s,
                   PolicyOp policy) {
  bool byLayers = false, byHeads = false;
  policy.walk([&](Operation *op) {
    byLayers |= isa<AllocateLayersOp, AllocateTableOp>(op);
    byHeads |= isa<AllocateHeadsOp>(op);
  });
  if (byHeads ? !k.shape.hasRows() : byLayers)
    return s.length <= s.budget;
  if (!byHeads)
    return s.rows <= s.budget;
  Expr heads = k.arg("kv_heads");
  Expr rows = k.once("rows of all heads", {s.sequence, s.length}, [&] {
    return k.fold(0, heads, 1, k.index(0), [&](Expr head, Expr sum) {
      return sum + HeadRows(k, s.sequence, head, s.length).count();
    });
  });
  if (!byLayers)
    return rows <= s.budget * heads;
  // A layer has its window and its share. Where that is nothing this decides; with any
  // share all heads take part, and get all rows where these are no more.
  return (s.length <= s.budget) | (rows <= (s.window + s.unused) * heads);
}

/// Narrows the window and the past to those of a head's rows.
static void openRows(KernelBuilder &k, SequenceScalars &s, Expr head,
                     Value protectLast) {
  HeadRows rows(k, s.sequence, head, s.length);
  s.rows = rows.count();
  // As many as a head with all tokens would have; `s` may be another head's.
  Expr most = s.window + s.unused;
  if (protectLast) {
    // Of the window's tokens, not cut to the budget, as many as have rows.
    Expr window = atLeastNone(k, evalScalar(k, s, protectLast), protectLast)
                      .min(s.length);
    Expr from = (s.rows - window).max(k.index(0)), wanted = s.length - window;
    // A head that has all of them needs no search.
    using Values = KernelBuilder::Values;
    Expr hasAll = k.choose(
        from < s.rows, [&] { return Values{rows.position(from) >= wanted}; },
        [&] { return Values{k.boolean(true)}; })[0];
    Expr first = k.choose(
        hasAll, [&] { return Values{from}; },
        [&] { return Values{rows.firstAt(wanted, from, s.rows)}; })[0];
    s.window = (s.rows - first).max(k.index(0)).min(s.budget);
  }
  s.unused = most - s.window;
  s.past = s.rows - s.window;
}

SequenceScalars kvc::narrowToHead(KernelBuilder &k,
                                  const SequenceScalars &sequence, Expr head,
                                  YieldOp yield) {
  SequenceScalars s = sequence;
  if (k.shape.hasRows())
    openRows(k, s, head, yield ? yield.getProtectLast() : Value());
  return s;
}

SequenceScalars kvc::openHead(KernelBuilder &k, Expr sequence, Expr head,
                              YieldOp yield) {
  return narrowToHead(k, openSequence(k, sequence, yield), head, yield);
}

SequenceScalars kvc::openHead(KernelBuilder &k, Expr sequence, YieldOp yield) {
  // Only who has rows asks for the head here.
  return k.shape.hasRows()
             ? openHead(k, sequence, k.block(gpu::Dimension::y), yield)
             : openSequence(k, sequence, yield);
}

SequenceScalars kvc::openSequence(KernelBuilder &k, Expr sequence,
                                  YieldOp yield) {
  Value protectLast = yield ? yield.getProtectLast() : Value();
  SequenceScalars s;
  s.sequence = sequence;
  s.length = k.load(k.buffer("lengths", {}), {sequence}).toIndex();
  if (k.shape.hasRows()) // positions are places in memory
    s.length = s.length.max(k.index(1)).min(k.arg("max_tokens"));
  s.budget = k.load(k.buffer("budgets", {}), {sequence}).toIndex();
  s.window = protectLast
                 ? atLeastNone(k, evalScalar(k, s, protectLast), protectLast)
                       .min(s.budget)
                       .min(s.length)
                 : k.index(0);
  s.past = s.length - s.window;
  if (yield)
    for (auto op : yield->getBlock()->getOps<AllocateLayersOp>())
      s.shares[op] = allocateLayers(k, s, op);
  s.rows = s.length;
  s.unused = k.index(0);
  return s;
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
    return wanted.isF32() ? inner.toFloat() : inner.toI32();
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

std::pair<Expr, Expr> kvc::scaledInverse(KernelBuilder &k, Expr number) {
  Expr size = number.unary<math::AbsFOp>();
  Expr scale =
      (size < k.f32(0x1p-64))
          .select(k.f32(0x1p64),
                  (size > k.f32(0x1p64)).select(k.f32(0x1p-64), k.f32(1)));
  return {scale, k.f32(1) / (number * scale)};
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

/// Over the group: the members in ascending order. Over all heads: KV head by
/// KV head, reading stored values.
Expr PointEval::reduceHeads(ReduceOp reduce) {
  bool perQueryHead = headsOf(reduce.getValue().getType()) == Axis::QueryHeads;
  int64_t members = perQueryHead ? k.shape.group : 1;
  auto overMembers = [&](PointEval &eval, Expr sum) {
    for (int64_t j = 0; j < members; ++j)
      sum = reductionStep(reduce.getKind(), sum, eval(reduce.getValue(), j));
    return sum;
  };
  Expr start = reductionStart(k, reduce.getKind());
  Expr sum, count = k.f32(members);
  if (reduce.getAxis() == ReduceAxis::Group) {
    sum = overMembers(*this, start);
  } else {
    Expr heads = headsOf(reduce.getValue().getType()) == Axis::OneHead
                     ? k.index(1)
                     : k.arg("kv_heads");
    Outside around = aroundLoop(Axis::KVHeads);
    sum = k.fold(0, heads, 1, start, [&](Expr head, Expr acc) {
      Point other = point;
      // What is one for all heads is known by the position, which stays.
      if (!k.shape.hasRows())
        other.kvHead = head;
      PointEval eval(*this, leaf, other, around);
      return overMembers(eval, acc);
    });
    count = count * heads.toFloat();
  }
  return reductionEnd(reduce.getKind(), sum, count);
}

/// The members of a row in ascending order, which a walk over all of the head's finds:
/// lanes of neighbouring rows read the same ones.
Expr PointEval::reduceMembers(ReduceOp reduce) {
  MemberTable table(k, s.sequence, point.kvHead);
  ReduceKind kind = reduce.getKind();
  Outside around = aroundLoop(Axis::Member);
  Values sums = k.loop(
      0, table.count(), 1, {reductionStart(k, kind), k.i32(0)},
      [&](Expr entry, ArrayRef<Expr> carried) {
        Point at = point;
        at.token = entry;
        PointEval eval(*this, leaf, at, around);
        Expr next = reductionStep(kind, carried[0], eval(reduce.getValue()));
        Expr own = table.row(entry) == point.token;
        return Values{own.select(next, carried[0]), carried[1] + own.toI32()};
      });
  return reductionEnd(kind, sums[0], sums[1].toFloat());
}

Values PointEval::channels(Value value, Expr first, int64_t width, int member) {
  return channels(value, first, width, member, aroundLoop(Axis::Channel));
}

Values PointEval::channels(Value value, Expr first, int64_t width, int member,
                           Outside around) {
  llvm::SmallDenseMap<CacheSide, Expr, 2> loads;
  Values values;
  for (int64_t e = 0; e < width; ++e) {
    Point at = point;
    at.channel = first + e;
    at.access = first;
    at.element = e;
    LeafReader reader = [&](Value value, const Point &p) {
      std::optional<Expr> known = leaf(value, p);
      auto vectors = value.getDefiningOp<VectorsOp>();
      // A reduction over channels in this one asks for channels of its own.
      if (known || !vectors || Value(p.token) != Value(point.token) ||
          Value(p.kvHead) != Value(point.kvHead) ||
          Value(p.channel) != Value(at.channel))
        return known;
      Expr &loaded = loads[vectors.getSide()];
      if (!loaded.valid())
        loaded = k.loadVector(sideBuffer(k, vectors.getSide()),
                              {s.sequence, p.kvHead, p.token, first}, width);
      return std::optional(k.element(loaded, e).widen());
    };
    PointEval eval(*this, reader, at, around);
    values.push_back(eval(value, member));
  }
  return values;
}

/// The channels in ascending order, by one thread.
Expr PointEval::reduceChannels(ReduceOp reduce, int member) {
  int64_t d = k.shape.headDim;
  int64_t width = k.shape.vectorWidth();
  Outside around = aroundLoop(Axis::Channel);
  auto walk = [&](ReduceKind kind, llvm::function_ref<Expr(Expr)> value) {
    auto step = [&](Expr first, Expr acc) {
      for (Expr x : channels(reduce.getValue(), first, width, member, around))
        acc = reductionStep(kind, acc, value(x));
      return acc;
    };
    return k.fold(0, d, width, reductionStart(k, kind), step);
  };
  return reduceAll(k, reduce.getKind(), k.f32(d), walk);
}

/// One thread walks the row, a vector at a time.
Expr PointEval::norm(NormOp op) {
  Buffer rows = sideBuffer(k, op.getSide());
  bool l2 = op.getKind() == NormKind::L2;
  int64_t width = k.shape.vectorWidth();
  Expr sum =
      k.fold(0, k.shape.headDim, width, k.f32(0), [&](Expr dim, Expr acc) {
        Expr loaded = k.loadVector(
            rows, {s.sequence, point.kvHead, point.token, dim}, width);
        Expr total = acc;
        for (int64_t e = 0; e < width; ++e) {
          Expr x = k.element(loaded, e).widen();
          total =
              l2 ? x.multiplyAdd(x, total) : total + x.unary<math::AbsFOp>();
        }
        return total;
      });
  return l2 ? k.sqrt(sum) : sum;
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
