//===- ColumnsProducts.cpp - attention rows added up in registers ---------===//
//
// A lane has two of 8 rows and four of 32 tokens of each product of matrices. Where
// what is reduced over queries asks for no other point, it is evaluated right there
// and added up by token, in an accumulator of its member of the group; lanes meet once,
// behind all rows (ColumnsMembers.cpp).
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/Reductions.h"
#include "dialect/Behind.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

bool ColumnsBuilder::arePointwise(ArrayRef<ReduceOp> reduces) {
  bool pointwise = true;
  for (ReduceOp reduce : reduces) {
    Value rows = ReduceOp(reduce).getValue();
    pointwise &= headsOf(rows.getType()) == Axis::QueryHeads;
    walkBehind(rows, [&](Value behind) {
      auto type = dyn_cast<RankedTensorType>(behind.getType());
      if (!type || type.getRank() < 3)
        return false;
      pointwise &= !behind.getDefiningOp<ReduceOp>();
      return true;
    });
  }
  return pointwise;
}

bool ColumnsBuilder::rowsArePointwise() const {
  return !halo && !walksHeads() && arePointwise(windows);
}

bool ColumnsBuilder::walksApart() const {
  return readsAll && tiles > 1 && windows.size() > 1;
}

bool ColumnsBuilder::walksLastQueries() const {
  return walksApart() && smallerWindow(walked);
}

SmallVector<SmallVector<ReduceOp>> ColumnsBuilder::walksOfProducts() const {
  if (!walksApart())
    return {windows};
  SmallVector<SmallVector<ReduceOp>> walks;
  for (bool smaller : {true, false})
    for (ReduceOp reduce : windows)
      if (isSmaller(windowOf(reduce)) == smaller)
        walks.push_back({reduce});
  return walks;
}

void ColumnsBuilder::sumProducts(
    KernelBuilder &k, LogitTile &tile, const SequenceScalars &s,
    const Point &point, Expr from, Expr own,
    llvm::function_ref<Values(const Point &, Expr, Slots)> startsAt) {
  RowSource source = stagedQueries(k, tile, s);
  int64_t waits = 0;
  SmallVector<std::pair<int64_t, std::pair<ReduceOp, int>>> waiting; // by tile
  auto place = [&](int64_t number) {
    return SmallVector<Expr>{piece, k.index(number), k.lane()};
  };
  SmallVector<SmallVector<ReduceOp>> walks = walksOfProducts();
  for (const SmallVector<ReduceOp> &walk : walks) {
    walked = walk;
    // Whose queries are the last ones alone begins with the round that has their first.
    Expr begin = from;
    if (walks.size() > 1 && isSmaller(windowOf(walk[0]))) {
      Expr first = (queries - windowOf(walk[0])).max(k.index(0)) *
                   tile.paddedGroup / roundRows() * (roundRows() / tile.rows);
      begin = from.max(first);
    }
    SmallVector<std::pair<ReduceOp, int>> slots;
    for (ReduceOp reduce : walk)
      forMembers(k, reduce.getValue(),
                 [&](int j) { slots.push_back({reduce, j}); });
    // Warpgroups begin a walk of few rounds together.
    bool together = panels && walksLastQueries();
    Expr first = mates > 1 && !together ? own.max(begin) : begin;
    if (mates > 1 && staged) {
      staged->turns = mates;
      staged->turn = mate;
      staged->own = first * tile.rows;
    }
    Values sums =
        panels && readsAll
            ? accumulateTogether(k, tile, s, point, source, begin)
        : panels && holdsRows ? accumulateHeadTogether(k, tile, s, point)
        : panels ? accumulateWindow(k, tile, s, point)
                 : accumulateProducts(k, tile, s, point, source, begin);
    forTiles(k, s, point, [&](int64_t number, const Point &at) {
      Values all = sumsOfMembers(k, tile, number, sums);
      for (auto [slot, sum, start] :
           llvm::zip(slots, all, startsAt(at, first, slots)))
        sum = reductionStep(ReduceOp(slot.first).getKind(), start, sum);
      finishRows(k, number, slots, all);
      // What the next walk does not need would take its registers.
      if (&walk != &walks.back())
        for (auto &slot : slots) {
          Expr sum = finishedTiles[number][{slot.first, slot.second}];
          SmallVector<Expr> at = place(waits++);
          k.when(isFirstMate(k), [&] { k.store(sum, waitingSums, at); });
          waiting.push_back({number, slot});
        }
    });
  }
  if (staged) {
    staged->turns = 1;
    staged->own = Expr();
  }
  for (auto [i, one] : llvm::enumerate(waiting))
    finishedTiles[one.first][{one.second.first, one.second.second}] =
        k.load(waitingSums, place(int64_t(i)));
}

Values ColumnsBuilder::startProducts(KernelBuilder &k) {
  int64_t group = LogitTile::paddedGroupOf(k.shape);
  Values starts;
  int64_t columns =
      panels ? halvesOfWarp() * 2 : tiles * WarpProduct::columns / 8;
  for (ReduceOp reduce : walked)
    starts.append(columns * classesOf(group),
                  reductionStart(k, reduce.getKind()));
  return starts;
}

Values ColumnsBuilder::accumulateProducts(KernelBuilder &k, LogitTile &tile,
                                          const SequenceScalars &s,
                                          const Point &point,
                                          const RowSource &source, Expr from) {
  if (holdsRows)
    return accumulateHead(k, tile, s, point, source);
  int64_t smaller = smallerWindow(walked);
  Expr newest = newestPosition(k, s, point);
  auto add = [&](Expr first, Expr place, ArrayRef<Expr> sums, bool whole) {
    return addProducts(k, tile, s, point, first / tile.rows, place, sums,
                       whole);
  };
  // Where a smaller window begins is known only at launch, and of its own walk hardly a
  // round is whole.
  bool isShort = walksApart() && smaller;
  if (isMixed() || isShort)
    return staged->walk(source, from * tile.rows, startProducts(k),
                        [&](Expr first, Expr place, ArrayRef<Expr> sums) {
                          return add(first, place, sums, false);
                        });
  auto isWhole = [&](Expr first, Expr end) {
    return allSee(tile, s, newest, smaller, first, end);
  };
  if (rowsFitAtOnce()) {
    int64_t rows = rowsOfWindow();
    if (!keepsRows()) { // an output projection's rows take their place
      k.barrier();
      staged->beginAll(source, rows);
    }
    return staged->walkAll(rows, startProducts(k), isWhole, add);
  }
  return staged->walkEither(source, from * tile.rows, startProducts(k), isWhole,
                            add);
}

Values ColumnsBuilder::addProducts(KernelBuilder &k, LogitTile &tile,
                                   const SequenceScalars &s, const Point &point,
                                   Expr step, Expr place, ArrayRef<Expr> sums,
                                   bool whole, std::optional<int64_t> known) {
  Expr minusScale = readsLse ? k.f32(-1) * k.arg("lse_scale") : Expr();
  auto number = [&](const WarpProduct::Product &p) {
    return staged->number(place + p.row);
  };
  AddingProducts adding{
      step, tile.products().slots(), whole, known, number, minusScale};
  Values next(sums.begin(), sums.end());
  tile.products().multiply(
      staged->memory, [&](Expr row) { return SmallVector<Expr>{place + row}; },
      [&](const WarpProduct::Product &p) {
        addProduct(k, tile, s, point, adding, p, next);
      });
  return next;
}

void ColumnsBuilder::addProduct(KernelBuilder &k, LogitTile &tile,
                                const SequenceScalars &s, const Point &point,
                                AddingProducts &adding,
                                const WarpProduct::Product &p, Values &sums) {
  int64_t group = tile.paddedGroup;
  int classes = classesOf(group);
  bool whole = adding.whole;
  // Of positions that are apart by constants one is kept, not one for each column.
  bool regular = !readsAll && !k.shape.hasRows() && !panels;
  Expr query = adding.step * tile.queriesPerStep() + p.row / group;
  Expr token = tileStart + p.column;
  Point at = point;
  at.query = query;
  at.token = clamp(k, token, s.past);
  at.laneMember = p.row % group;
  Expr position =
      whole || regular ? token : positionOf(k, s, at.kvHead, at.token);
  if (group != k.shape.group) // heads that pad the group read the last one
    at.laneMember = at.laneMember.min(k.index(k.shape.group - 1));
  // Here, and not where it is first asked for, which may be in a loop.
  Expr shift = readsLse ? adding.shift(p) : Expr();
  auto weightOf = [&](AttentionOp op) {
    if (op.getLogits()) {
      Expr logit = p.value * (tile.logitScale() * k.f32(logitsInBase2));
      return whole ? logit : finishLogit(k, s, query, logit);
    }
    Expr value = k.exp2(p.value.multiplyAdd(tile.logitScale(), shift));
    if (!whole) {
      Expr firstQuery = // that sees the lane's first token
          (tileStart + tile.products().columnOf(0) - (s.length - queries))
              .toI32();
      Expr seen = regular ? query.toI32() - firstQuery >=
                                WarpProduct::apart * p.columnSlot
                          : sees(s, query, position);
      value = seen.select(value, k.f32(0));
    }
    return finishWeight(k, op, value);
  };
  LeafReader leaf = [&](Value value, const Point &q) -> std::optional<Expr> {
    if (auto attention = value.getDefiningOp<AttentionOp>())
      return weightOf(attention);
    return readColumn(k, s, value, q);
  };
  PointEval eval(k, s, leaf, at);
  for (auto [i, reduce] : llvm::enumerate(walked)) {
    int64_t window = windowOf(reduce);
    if (adding.known ? !isInStep(*adding.known, window)
                     : whole && isSmaller(window))
      continue;
    size_t column = i * adding.slots + p.columnSlot;
    Expr &sum = sums[column * classes + classOf(group, p.rowSlot)];
    Expr updated = reductionStep(ReduceOp(reduce).getKind(), sum,
                                 eval(ReduceOp(reduce).getValue(), 0));
    sum = whole || adding.known
              ? updated
              : guarded(k, query, window, /*partial=*/true, sum, updated);
  }
  if (adding.known)
    holdProduct(*adding.known, p, eval);
}
