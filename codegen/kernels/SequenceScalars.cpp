//===- SequenceScalars.cpp - scalars of a sequence, or of its head --------===//

#include "codegen/kernels/SequenceScalars.h"

#include "codegen/kernels/Allocation.h"
#include "codegen/kernels/CountRanges.h"
#include "codegen/kernels/ScalarOps.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// True for counts that no arithmetic can have brought below 0.
static bool isNeverNegative(Value value) {
  std::optional<CountRange> range = CountRanges().of(value);
  return range && !range->signs;
}

Expr kvc::lowestWord(KernelBuilder &k, Expr index, Value source) {
  std::optional<CountRange> range = CountRanges().of(source);
  if (range && range->bits <= 31)
    return index.toI32();
  // MLIR takes an index that is cast there and back for the index.
  Value wide = arith::IndexCastOp::create(k.b, k.b.getI64Type(), index);
  return k.expr(arith::TruncIOp::create(k.b, k.b.getI32Type(), wide));
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
  if (isa<arith::IndexCastOp>(op) && op->getResult(0).getType().isInteger(32))
    return lowestWord(k, evalScalar(k, s, op->getOperand(0), known),
                      op->getOperand(0));
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
