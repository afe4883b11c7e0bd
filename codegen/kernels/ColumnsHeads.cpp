//===- ColumnsHeads.cpp - rows reduced over all heads, in registers -------===//
//
// A warp walks the heads, and of a window's rows it is known which step has them. So
// what a lane makes of its products in a row that is reduced over all heads is a
// register for each step, query of the lane in it, and token slot: carried from head
// to head, over those members of the group that the lane has. Behind the last head
// lanes with other members of the same query meet, and what is reduced over the queries
// of these rows is evaluated there, too.
//
// A warp's next keys take the registers of those it is done with: they are on their way
// while the head's sums are exchanged and stored, and the next head's first queries from
// the last round of this one's on.
//
// Two warps have the same tokens. Where a lane has registers for the rows of all steps,
// each of them takes every other head (ColumnsTeams.cpp). Else they have half of the steps
// each: what is reduced inside a head they add up behind each head, the rest behind the
// last one.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/Reductions.h"
#include "dialect/Behind.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

static constexpr int64_t slotsOfTile = WarpProduct::columns / 8;

/// True where what is reduced is made of rows of all heads alone, all of the same window.
static bool readsRowsAlone(ReduceOp reduce, int64_t window) {
  bool alone = true;
  walkBehind(reduce.getValue(), [&](Value behind) {
    auto type = dyn_cast<RankedTensorType>(behind.getType());
    if (!type)
      return false;
    auto rows = behind.getDefiningOp<ReduceOp>();
    bool ofHeads = rows && rows.getAxis() == ReduceAxis::Heads;
    alone &=
        type.getRank() == 3 && type.getDimSize(1) == window &&
        (ofHeads || (!rows && behind.getDefiningOp() &&
                     behind.getDefiningOp()->hasTrait<OpTrait::Elementwise>()));
    return !ofHeads;
  });
  return alone;
}

bool ColumnsBuilder::canHoldRows(int64_t mates) const {
  constexpr int64_t mostRegisters = 32;
  int64_t group = site.shape.group;
  if (!walksHeads() || readsAll || halo || site.shape.hasRows() ||
      !projectedNorms.empty() || group > WarpProduct::rows ||
      !llvm::isPowerOf2_64(group) || !arePointwise(windows) ||
      !arePointwise(rowHeads))
    return false;
  // No step has rows in and out of a window, nor any that only pad it.
  int64_t together = mates * WarpProduct::rows;
  int64_t registers = 0;
  bool fits = fixedQueries * group % together == 0;
  for (ReduceOp reduce : windows)
    fits &= windowOf(reduce) * group % together == 0;
  for (ReduceOp reduce : rowHeads) {
    int64_t rows = windowOf(reduce) * group;
    fits &= rows % together == 0;
    registers += rows / together * queriesOfLane() * slotsOfTile;
  }
  for (ReduceOp reduce : lateWindows)
    fits &= readsRowsAlone(reduce, windowOf(reduce));
  return fits && registers <= mostRegisters;
}

int64_t ColumnsBuilder::queriesOfLane() const {
  int64_t group = site.shape.group;
  return group == 1 ? 4 : group <= 8 ? 2 : 1;
}

bool ColumnsBuilder::isInStep(int64_t step, int64_t window) const {
  int64_t first = (fixedQueries - window) * site.shape.group;
  return step * mates * WarpProduct::rows >= first;
}

int64_t ColumnsBuilder::stepsOf(int64_t window) const {
  return window * site.shape.group / (mates * WarpProduct::rows);
}

Values ColumnsBuilder::startHeld(KernelBuilder &k) {
  Values starts;
  for (ReduceOp reduce : rowHeads)
    starts.append(heldOf(reduce), reductionStart(k, reduce.getKind()));
  return starts;
}

int64_t ColumnsBuilder::heldOf(ReduceOp reduce) const {
  return stepsOf(windowOf(reduce)) * queriesOfLane() * slotsOfTile;
}

int64_t ColumnsBuilder::heldOfAll() const {
  int64_t count = 0;
  for (ReduceOp reduce : rowHeads)
    count += heldOf(reduce);
  return count;
}

bool ColumnsBuilder::fetchesQueries() const {
  return fetchesKeys() && (panels || staged->endsInSecond(rowsOfWindow()));
}

Values ColumnsBuilder::fetchKeys(KernelBuilder &k, LogitTile &tile,
                                 const SequenceScalars &s, Expr kvHead) {
  Expr head = kvHead.min(k.arg("kv_heads") - 1);
  if (!panels)
    return tile.fetchKeys(s.sequence, head, tileStart, s.rows);
  Values keys;
  for (int64_t half = 0; half < halves; ++half)
    keys.append(keysOfHalf(k, s, head, half));
  return keys;
}

void ColumnsBuilder::fetchQueries(KernelBuilder &k, LogitTile &tile,
                                  const SequenceScalars &s, Expr kvHead) {
  if (panels)
    return copyFirstRounds(k, tile, s, kvHead);
  tile.setHead(s.sequence, kvHead.min(k.arg("kv_heads") - 1));
  staged->beginKnown(stagedQueries(k, tile, s), rowsOfWindow());
}

void ColumnsBuilder::holdProduct(int64_t step,
                                 const WarpProduct::Product &product,
                                 PointEval &eval) {
  int64_t queries = queriesOfLane(), from = 0;
  for (ReduceOp reduce : rowHeads) {
    int64_t window = windowOf(reduce);
    if (isInStep(step, window)) {
      int64_t own = step - (stepsOf(fixedQueries) - stepsOf(window));
      int64_t query = product.rowSlot * queries / 4;
      Expr &row = held[from + (own * queries + query) * slotsOfTile +
                       product.columnSlot];
      row = reductionStep(reduce.getKind(), row, eval(reduce.getValue(), 0));
    }
    from += heldOf(reduce);
  }
}

Values ColumnsBuilder::accumulateHead(KernelBuilder &k, LogitTile &tile,
                                      const SequenceScalars &s,
                                      const Point &point,
                                      const RowSource &source) {
  int64_t rows = rowsOfWindow();
  Expr isWhole = allSee(tile, s, newestToken(), 0, k.index(0), k.index(rows));
  Expr nextHead = point.kvHead + headsTogether(k);
  Values sums = startProducts(k);
  size_t count = sums.size();
  sums.append(held);
  auto next = [&] {
    fetchQueries(k, tile, s, nextHead);
    tile.setHead(s.sequence, point.kvHead);
  };
  Values all = staged->walkKnownRounds(
      source, rows, sums,
      [&](int64_t first, Expr place, ArrayRef<Expr> carried) {
        int64_t together = mates * tile.rows,
                end = std::min(first + staged->rows, rows);
        auto add = [&](bool whole) {
          Values next(carried.take_front(count));
          held.assign(carried.begin() + count, carried.end());
          for (int64_t row = first; row < end; row += together) {
            Expr step = mate + row / tile.rows;
            next = addProducts(k, tile, s, point, step,
                               place + (row - first) + mate * tile.rows, next,
                               whole, row / together);
          }
          next.append(held);
          return next;
        };
        auto addEither = [&] {
          return k.choose(
              isWhole, [&] { return add(true); }, [&] { return add(false); });
        };
        if (!isForTeam.valid())
          return addEither();
        return k.choose(isForTeam, addEither, [&] { return Values(carried); });
      },
      fetchesQueries() ? llvm::function_ref<void()>(next) : nullptr);
  held.assign(all.begin() + count, all.end());
  all.truncate(count);
  if (fetchesKeys())
    keysAhead = fetchKeys(k, tile, s, nextHead);
  return all;
}

std::pair<Expr, Expr> ColumnsBuilder::placeOfHeld(KernelBuilder &k,
                                                  LogitTile &tile, int slot) {
  if (!panels)
    return {placeOfSums(k), tile.products().columnOf(slot)};
  return placeOfColumn(k, slot / 2, slot % 2);
}

Values ColumnsBuilder::reduceHeld(KernelBuilder &k, LogitTile &tile,
                                  const SequenceScalars &s, const Point &point,
                                  Finish finish) {
  int64_t group = tile.paddedGroup;
  // Lanes nearer than that have members of the same query.
  int64_t beside = laneStep(group);
  llvm::DenseMap<Operation *, ArrayRef<Expr>> rows;
  SmallVector<ReduceKind> kinds;
  ArrayRef<Expr> left = held;
  for (ReduceOp reduce : rowHeads) {
    int64_t count = heldOf(reduce);
    for (Expr &row :
         MutableArrayRef(held).slice(held.size() - left.size(), count))
      row = reduceLanesFrom(k, reduce.getKind(), row, 1, beside);
    left = left.drop_front(count);
    kinds.append(count, reduce.getKind());
  }
  if (teams > 1)
    held = joinTeams(k, kinds, held, beside);
  if (partners > 1)
    joinPartners(k, kinds, held, beside);
  left = held;
  for (ReduceOp reduce : rowHeads) {
    int64_t count = heldOf(reduce);
    rows[reduce] = left.take_front(count);
    left = left.drop_front(count);
  }
  Values result;
  for (ReduceOp reduce : lateWindows) {
    ReduceKind kind = reduce.getKind();
    Values sums(slotsOfTile, reductionStart(k, kind));
    for (int64_t i = 0; i < heldOf(reduce); ++i) {
      LeafReader leaf = [&](Value value,
                            const Point &p) -> std::optional<Expr> {
        auto it = rows.find(value.getDefiningOp());
        if (it == rows.end())
          return readColumn(k, s, value, p);
        return finish(cast<ReduceOp>(it->first), it->second[i]);
      };
      PointEval eval(k, s, leaf, point);
      Expr &sum = sums[i % slotsOfTile];
      sum = reductionStep(kind, sum, eval(reduce.getValue()));
    }
    SmallVector<PlacedSum> mine;
    for (auto [slot, sum] : llvm::enumerate(sums)) {
      auto [own, column] = placeOfHeld(k, tile, int(slot));
      mine.push_back({kind,
                      reduceLanesFrom(k, kind, sum, beside, 4),
                      {own, k.index(0), column}});
    }
    k.barrier(); // earlier sums have been read
    for (int64_t turn = 0; turn < mates; ++turn) {
      if (turn)
        k.barrier();
      putSums(k, mine, turn == 0, (mate == turn) & (k.lane() % 4 == 0));
    }
    k.barrier();
    result.push_back(
        k.load(memberSums, {placeOfSums(k), k.index(0), k.lane()}));
  }
  return result;
}
