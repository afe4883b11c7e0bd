//===- ColumnsRows.cpp - attention rows, added up column by column --------===//

#include "codegen/kernels/Columns.h"

using namespace mlir;
using namespace kvc;

void ColumnsBuilder::accumulateRows(KernelBuilder &k, LogitTile &tile,
                                    const SequenceScalars &s, Point point) {
  tile.loadKeys(s.sequence, point.kvHead, tileStart, s.length);
  SmallVector<std::pair<ReduceOp, int>> slots;
  SmallVector<Expr> starts;
  for (ReduceOp reduce : windows)
    forMembers(k, reduce.getValue(), [&](int j) {
      slots.push_back({reduce, j});
      starts.push_back(reductionStart(k, reduce.getKind()));
    });
  // Older queries do not see the tile's tokens, but logits are of all.
  Expr from = readsAll && !readsLogits
                  ? tileStart.max(k.index(0)) / tile.queriesPerStep()
                  : k.index(0);
  Values sums = k.loop(
      from, tile.steps(), k.index(1), starts,
      [&](Expr step, ArrayRef<Expr> carried) {
        tile.compute(step);
        Values next(carried.begin(), carried.end());
        for (int64_t local = 0; local < tile.queriesPerStep(); ++local)
          accumulateQuery(k, tile, s, point, step, local, slots, next);
        k.syncWarp(); // all have read the tile before it is written again
        return next;
      });
  for (auto [slot, sum] : llvm::zip(slots, sums)) {
    ReduceOp reduce = slot.first;
    int64_t window = windowOf(reduce);
    Expr count = window ? k.f32(window) : queries.toFloat();
    finished[{reduce, slot.second}] =
        reduce.getKind() == ReduceKind::Mean ? sum / count : sum;
  }
}

void ColumnsBuilder::accumulateQuery(KernelBuilder &k, LogitTile &tile,
                                     const SequenceScalars &s, Point point,
                                     Expr step, int64_t local,
                                     ArrayRef<std::pair<ReduceOp, int>> slots,
                                     Values &sums) {
  Expr query = step * tile.queriesPerStep() + local;
  bool partial = readsAll || fixedQueries % tile.queriesPerStep() != 0;
  LeafReader leaf = [&](Value value, const Point &p) -> std::optional<Expr> {
    if (auto attention = value.getDefiningOp<AttentionOp>())
      return weight(k, tile, s, p, attention, query, local);
    return readColumn(k, s, value, p);
  };
  point.query = query;
  PointEval eval(k, s, leaf, point);
  auto guarded = [&](int64_t window, Expr old, Expr updated) {
    // Rows in front of a shorter window, and rows that pad the last step.
    if (window && (readsAll || window < fixedQueries))
      updated = (query >= queries - window).select(updated, old);
    return partial ? (query < queries).select(updated, old) : updated;
  };
  for (auto [slot, sum] : llvm::zip(slots, sums)) {
    ReduceOp reduce = slot.first;
    sum = guarded(windowOf(reduce), sum,
                  reductionStep(reduce.getKind(), sum,
                                eval(reduce.getValue(), slot.second)));
  }
  for (ReduceOp reduce : rowHeads) {
    Buffer memory = rowHeadSums[reduce];
    int64_t window = windowOf(reduce);
    Expr row =
        (query - (queries - window)).max(k.index(0)).min(k.index(window - 1));
    Expr old = k.load(memory, {k.warp(), row, k.lane()});
    Expr start =
        (point.kvHead == 0).select(reductionStart(k, reduce.getKind()), old);
    Expr total = start;
    forMembers(k, reduce.getValue(), [&](int j) {
      total =
          reductionStep(reduce.getKind(), total, eval(reduce.getValue(), j));
    });
    k.store(guarded(window, old, total), memory, {k.warp(), row, k.lane()});
  }
}

Expr ColumnsBuilder::weight(KernelBuilder &k, LogitTile &tile,
                            const SequenceScalars &s, const Point &p,
                            AttentionOp op, Expr query, int64_t local) {
  // A pool asks for neighbours; what lies behind the tile's ends is asked for
  // by lanes whose result nobody stores.
  Expr column =
      halo ? clamp(k, p.token - tileStart, k.index(warpSize)) : k.lane();
  Expr logit = tile.at(k.index(local * tile.paddedGroup + p.member), column);
  if (op.getLogits()) // the tile's are base 2
    return logit * k.f32(0.6931471805599453);
  Expr row = query.min(queries - 1);
  Buffer lse = k.buffer("lse", {k.arg("lse_batch"), k.arg("lse_head")});
  Expr shift = k.load(lse, {s.sequence, headIndex(k, Axis::QueryHeads, p),
                            k.arg("lse_rows") - queries + row}) *
               k.arg("lse_scale");
  Expr seen = p.token <= s.length - queries + row;
  Expr value = seen.select(k.exp2(logit - shift), k.f32(0));
  if (!op.getRounded() || k.shape.dtype == DType::F32)
    return value;
  Type element = k.shape.elementType(k.b.getContext());
  return k.expr(arith::TruncFOp::create(k.b, element, value)).widen();
}
