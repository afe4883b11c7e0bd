//===- ColumnsRows.cpp - attention rows, added up column by column --------===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

PoolOp ColumnsBuilder::dividedBehind(ReduceOp reduce) {
  auto pool = reduce.getValue().getDefiningOp<PoolOp>();
  bool compares = reduce.getKind() == ReduceKind::Max ||
                  reduce.getKind() == ReduceKind::Min;
  return compares && pool && pool.getKind() == PoolKind::Mean ? pool : PoolOp();
}

Expr ColumnsBuilder::reducedAt(PointEval &eval, ReduceOp reduce, int member) {
  PoolOp pool = dividedBehind(reduce);
  return pool ? eval.poolSum(pool, member) : eval(reduce.getValue(), member);
}

static Buffer lseBuffer(KernelBuilder &k) {
  return k.buffer("lse", {k.arg("lse_batch"), k.arg("lse_head")});
}

static SmallVector<Expr> lseAddress(const LogitTile &tile,
                                    const SequenceScalars &s, Expr head,
                                    Expr query) {
  return {s.sequence, head, tile.givenRow("lse_rows", query)};
}

/// Times log2(e).
static Expr logSumExp(KernelBuilder &k, const LogitTile &tile,
                      const SequenceScalars &s, Expr head, Expr query) {
  return k.load(lseBuffer(k), lseAddress(tile, s, head, query)) *
         k.arg("lse_scale");
}

bool ColumnsBuilder::queriesMissing() {
  auto policy = kernel->getParentOfType<PolicyOp>();
  return !readsAll && policy.getPlanAttr().readsAllQueries();
}

RowSource ColumnsBuilder::stagedQueries(KernelBuilder &k, LogitTile &tile,
                                        const SequenceScalars &s) {
  RowSource source = tile.rowSource();
  if (readsLse) {
    source.numbers = lseBuffer(k);
    source.number = [&](Expr row) {
      auto [head, query] = tile.queryOf(row);
      return lseAddress(tile, s, head, query);
    };
  }
  return source;
}

Expr ColumnsBuilder::firstRound(KernelBuilder &k, const LogitTile &tile,
                                const SequenceScalars &s, Expr start) const {
  // Older queries do not see these tokens, but logits are of all.
  if (!readsAll || readsLogits)
    return k.index(0);
  Expr query = readsNew ? start - (s.length - queries) : start;
  Expr step = query.max(k.index(0)) / tile.queriesPerStep();
  if (!staged && !panels)
    return step;
  int64_t perRound = roundRows() / tile.rows;
  return step / perRound * perRound;
}

void ColumnsBuilder::accumulateRows(KernelBuilder &k, LogitTile &tile,
                                    const SequenceScalars &s, Point point) {
  if (panels)
    tile.setHead(s.sequence, point.kvHead);
  else
    tile.loadKeys(s.sequence, point.kvHead, tileStart, s.rows, keysAhead);
  SmallVector<std::pair<ReduceOp, int>> slots;
  for (ReduceOp reduce : windows)
    forMembers(k, reduce.getValue(),
               [&](int j) { slots.push_back({reduce, j}); });
  Expr start = tileStart;
  if (panels && readsAll) // warpgroups have tokens of both halves of the block
    start = (piece < tokenWarps() / 2).select(halfStarts[0], halfStarts[1]);
  Expr from = firstRound(k, tile, s, staged || panels ? blockStart : tileStart);
  Expr own = firstRound(k, tile, s, start); // what the warp itself begins with
  auto startsAt = [&](const Point &at, Expr first, Slots of) {
    return startRows(k, s, at, first * tile.queriesPerStep(), of);
  };
  Values sums;
  if (inRegisters) {
    sumProducts(k, tile, s, point, from, own, startsAt);
  } else {
    Values starts = startsAt(point, from, slots);
    auto addTile = [&](Expr step, ArrayRef<Expr> carried, bool whole) {
      Values next(carried.begin(), carried.end());
      for (int64_t local = 0; local < steps * tile.queriesPerStep(); ++local)
        accumulateQuery(k, tile, s, point, step, local, slots, next, whole);
      k.syncWarp(); // all have read the tile before it is written again
      return next;
    };
    auto ofRow = [&](Expr row) {
      auto [head, query] = tile.queryOf(row);
      return logSumExp(k, tile, s, head, query);
    };
    auto addStaged = [&](Expr first, Expr place, ArrayRef<Expr> carried,
                         bool whole) {
      auto placeOf = [&](int64_t step, Expr row) {
        return place + row + step * tile.rows;
      };
      auto shift = [&](int64_t step, Expr row) {
        return staged->number(placeOf(step, row)) * k.arg("lse_scale");
      };
      tile.computeSteps(
          steps, staged->memory,
          [&](int64_t step, Expr row) {
            return SmallVector<Expr>{placeOf(step, row)};
          },
          storesWeights() ? LogitTile::StepShift(shift)
                          : LogitTile::StepShift());
      return addTile(first / tile.rows, carried, whole);
    };
    if (staged)
      sums = walkQueries(k, tile, s, point, from * tile.rows, starts,
                         stagedQueries(k, tile, s), addStaged);
    else
      sums =
          k.loop(from, tile.steps(), 1, starts,
                 [&](Expr step, ArrayRef<Expr> carried) {
                   tile.compute(step, storesWeights() ? LogitTile::Shift(ofRow)
                                                      : LogitTile::Shift());
                   return addTile(step, carried, false);
                 });
    LeafReader leaf = [&](Value value, const Point &p) {
      return readColumn(k, s, value, p);
    };
    PointEval eval(k, s, leaf, point);
    for (auto [slot, sum] : llvm::zip(slots, sums))
      if (PoolOp pool = dividedBehind(slot.first))
        sum = sum / eval.poolCount(pool);
    finishRows(k, 0, slots, sums);
  }
}

ColumnsBuilder::Values ColumnsBuilder::walkQueries(
    KernelBuilder &k, LogitTile &tile, const SequenceScalars &s,
    const Point &point, Expr from, ArrayRef<Expr> starts,
    const RowSource &source,
    llvm::function_ref<Values(Expr, Expr, ArrayRef<Expr>, bool)> body) {
  // Where a smaller window begins is known only at launch; who walks the heads asks by
  // position; and of two steps together one round is all there is.
  if (isMixed() || walksHeads() || steps > 1)
    return staged->walk(
        source, from, starts,
        [&](Expr first, Expr place, ArrayRef<Expr> carried) {
          return body(first, place, carried, false);
        },
        steps);
  int64_t smaller = smallerWindow(windows);
  // Neighbours of the tile's inner tokens.
  Expr inside =
      halo ? (tileStart >= 0) & (newestToken() < s.past) : k.boolean(true);
  Expr newest = newestPosition(k, s, point);
  return staged->walkEither(
      source, from, starts,
      [&](Expr first, Expr end) {
        return inside & allSee(tile, s, newest, smaller, first, end);
      },
      body);
}

void ColumnsBuilder::finishRows(KernelBuilder &k, int64_t tile,
                                ArrayRef<std::pair<ReduceOp, int>> slots,
                                ArrayRef<Expr> sums) {
  for (auto [slot, sum] : llvm::zip(slots, sums)) {
    ReduceOp reduce = slot.first;
    int64_t window = windowOf(reduce);
    Expr count = window ? k.f32(window) : extentOf(k, window).toFloat();
    Expr total = sum;
    if (readsNew && !window)
      total =
          (newQueries > 0).select(total, reductionStart(k, reduce.getKind()));
    finishedTiles[tile][{reduce, slot.second}] =
        reductionEnd(reduce.getKind(), total, count);
  }
}

void ColumnsBuilder::accumulateQuery(KernelBuilder &k, LogitTile &tile,
                                     const SequenceScalars &sequence,
                                     Point point, Expr step, int64_t local,
                                     ArrayRef<std::pair<ReduceOp, int>> slots,
                                     Values &sums, bool whole) {
  SequenceScalars s = sequence;
  s.neighboursExist = whole && halo;
  Expr query = step * tile.queriesPerStep() + local;
  bool partial = readsAll || fixedQueries % tile.queriesPerStep() != 0;
  LeafReader leaf = [&](Value value, const Point &p) -> std::optional<Expr> {
    if (auto attention = value.getDefiningOp<AttentionOp>())
      return weight(k, tile, s, p, attention, query, local, whole);
    return readColumn(k, s, value, p);
  };
  point.query = query;
  // Lanes whose token is stored by a neighbour do what the outermost of the others do.
  if (s.neighboursExist)
    point.token = tileStart +
                  k.lane().max(k.index(halo)).min(k.index(warpSize - 1 - halo));
  PointEval eval(k, s, leaf, point);
  for (auto [slot, sum] : llvm::zip(slots, sums)) {
    ReduceOp reduce = slot.first;
    int64_t window = windowOf(reduce);
    if (whole && isSmaller(window))
      continue;
    Expr updated = reductionStep(reduce.getKind(), sum,
                                 reducedAt(eval, reduce, slot.second));
    sum = whole ? updated : guarded(k, query, window, partial, sum, updated);
  }
  for (ReduceOp reduce : rowHeads) {
    int64_t window = windowOf(reduce);
    Expr first = queries - window;
    Expr row = (query - first).max(k.index(0)).min(k.index(window - 1));
    SmallVector<Expr> values;
    forMembers(k, reduce.getValue(),
               [&](int j) { values.push_back(eval(reduce.getValue(), j)); });
    addToRow(k, reduce, point, row, values, [&](Expr old, Expr updated) {
      return guarded(k, query, window, partial, old, updated);
    });
  }
}

void ColumnsBuilder::addToRow(KernelBuilder &k, ReduceOp reduce,
                              const Point &point, Expr row,
                              ArrayRef<Expr> values,
                              llvm::function_ref<Expr(Expr, Expr)> guarded) {
  Buffer memory = rowHeadSums[reduce];
  Expr old = k.load(memory, {piece, row, k.lane()});
  Expr total = old; // of a cache of rows
  if (!hasRow.valid())
    total =
        (point.kvHead == 0).select(reductionStart(k, reduce.getKind()), old);
  for (Expr value : values)
    total = reductionStep(reduce.getKind(), total, value);
  if (guarded)
    total = guarded(old, total);
  if (hasRow.valid())
    total = hasRow.select(total, old);
  k.store(total, memory, {piece, row, k.lane()});
}

void ColumnsBuilder::startRowHeads(KernelBuilder &k) {
  for (ReduceOp reduce : rowHeads)
    k.loop(0, windowOf(reduce), 1, [&](Expr row) {
      k.store(reductionStart(k, reduce.getKind()), rowHeadSums[reduce],
              {piece, row, k.lane()});
    });
}

Expr ColumnsBuilder::weight(KernelBuilder &k, LogitTile &tile,
                            const SequenceScalars &s, const Point &p,
                            AttentionOp op, Expr query, int64_t local,
                            bool whole) {
  // As where products stay in registers, to the last bit: the policy has one value.
  Expr column = s.neighboursExist ? p.token - tileStart : columnOf(k, p);
  Expr stored = tile.at(k.index(local * tile.paddedGroup + p.member), column);
  if (op.getLogits()) {
    Expr logit = stored * (tile.logitScale() * k.f32(logitsInBase2));
    return whole ? logit : finishLogit(k, s, query, logit);
  }
  Expr row = query.min(queries - 1), value = stored;
  if (!storesWeights())
    value = k.exp2(stored.multiplyAdd(
        tile.logitScale(),
        logSumExp(k, tile, s, headIndex(k, Axis::QueryHeads, p), row) *
            k.f32(-1)));
  if (!whole) {
    // For all queries and members: the lane's token is one, and there.
    HeadRows rows(k, s.sequence, p.kvHead, s.length);
    Expr seen = sees(s, row, rows.positionOnce(p.token));
    value = seen.select(value, k.f32(0));
  }
  return finishWeight(k, op, value);
}
