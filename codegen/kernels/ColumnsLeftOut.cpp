//===- ColumnsLeftOut.cpp - rows of queries that see none of a block ------===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/Reductions.h"
#include "dialect/Behind.h"

using namespace mlir;
using namespace kvc;

/// True for rows that are 0 where all weights are 0, and never below.
static bool isNoneWithoutWeight(Value value) {
  bool none = true;
  walkBehind(value, [&](Value behind) {
    Operation *op = behind.getDefiningOp();
    if (!isa<RankedTensorType>(behind.getType()))
      return false;
    auto attention = dyn_cast_or_null<AttentionOp>(op);
    bool keeps = isa_and_nonnull<PoolOp, arith::MulFOp, arith::AddFOp,
                                 arith::MaximumFOp, arith::MinimumFOp>(op);
    none &= keeps || (attention && !attention.getLogits());
    return keeps;
  });
  return none;
}

Expr ColumnsBuilder::rowsLeftOut(KernelBuilder &k, ReduceOp reduce,
                                 Expr skipped) {
  int64_t window = windowOf(reduce);
  return isSmaller(window)
             ? (skipped - queries + extentOf(k, window)).max(k.index(0))
             : skipped;
}

ColumnsBuilder::Values
ColumnsBuilder::startRows(KernelBuilder &k, const SequenceScalars &s,
                          Point point, Expr skipped,
                          ArrayRef<std::pair<ReduceOp, int>> slots) {
  LeafReader leaf = [&](Value value, const Point &p) -> std::optional<Expr> {
    if (value.getDefiningOp<AttentionOp>())
      return k.f32(0);
    return readColumn(k, s, value, p);
  };
  PointEval eval(k, s, leaf, point);
  Values starts;
  for (auto [reduce, member] : slots) {
    ReduceKind kind = reduce.getKind();
    Expr start = reductionStart(k, kind);
    starts.push_back(start);
    // Only all queries are too many to walk, and only then are there fewer
    // than a window wants.
    if (!readsAll ||
        (ignoresZeros(kind) && isNoneWithoutWeight(reduce.getValue())))
      continue;
    Expr rows = rowsLeftOut(k, reduce, skipped);
    Expr one = reducedAt(eval, reduce, member);
    Expr all = reductionOfEqual(k, kind, one, rows.toFloat());
    starts.back() = (rows > 0).select(all, start);
  }
  if (!readsAll)
    return starts;
  for (ReduceOp reduce : rowHeads) {
    // Every head adds to a row, so a row that has no step is written here.
    SmallVector<Expr> ones;
    forMembers(k, reduce.getValue(),
               [&](int j) { ones.push_back(eval(reduce.getValue(), j)); });
    k.loop(0, rowsLeftOut(k, reduce, skipped), 1,
           [&](Expr row) { addToRow(k, reduce, point, row, ones); });
  }
  return starts;
}
