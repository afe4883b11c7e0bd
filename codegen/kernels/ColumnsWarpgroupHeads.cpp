//===- ColumnsWarpgroupHeads.cpp - rows of all heads by warpgroups --------===//
//
// The form of a columns kernel whose warps walk the heads, with rows that are reduced over
// all of them in registers (ColumnsHeads.cpp), for GPUs that multiply by warpgroups: the
// same block of four warps with the same 128 tokens. The warpgroup multiplies 64 tokens,
// which are in registers, 16 a warp, with rounds of 64 of a head's rows (PanelRows.h); which
// row is in which step of 16 is known as before, so a lane holds the same rows.
//
// Rounds lie in two places in turn. Of each,
//
//   the first tokens   are multiplied; the round behind the next one, of this head or of
//                      the one that follows, is on its way while they are evaluated
//   the last tokens    are multiplied; behind a barrier that round takes the place of this
//                      one; they are evaluated, and behind a head's last round the next
//                      head's keys are on their way meanwhile, in the registers of these
//
// Shared memory: two rounds and their numbers, and the sums of members. Barriers: one a
// round, and two a head for each reduction.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

bool ColumnsBuilder::hasHeadProducts() const {
  return holdsRows && mates == 1 && teams == 1 && warps == 4 && tiles == 1 &&
         rowsOfWindow() % (2 * PanelRows::rows) == 0 &&
         PanelRows::bytesFor(site.shape) + tokenWarps() * bytesPerPiece() <=
             maxSharedBytes;
}

void ColumnsBuilder::copyFirstRounds(KernelBuilder &k, LogitTile &tile,
                                     const SequenceScalars &s, Expr kvHead) {
  tile.setHead(s.sequence, kvHead);
  RowSource source = stagedQueries(k, tile, s);
  panels->beginMixed(source, {k.index(0), k.index(PanelRows::rows)});
  panels->finish();
  k.barrier(); // both are there
}

Values ColumnsBuilder::accumulateHeadTogether(KernelBuilder &k, LogitTile &tile,
                                              const SequenceScalars &s,
                                              const Point &point) {
  constexpr int64_t ofRound = PanelRows::rows, ahead = 2 * ofRound;
  int64_t rows = rowsOfWindow(), ofHalf = int64_t(keysAhead.size()) / halves;
  Expr minusScale = readsLse ? k.f32(-1) * k.arg("lse_scale") : Expr();
  Values sums = startProducts(k), keys = keysAhead;
  size_t count = sums.size();
  Expr newest = startOfHalf(k, halves - 1) + (WarpProduct::rows - 1);
  Expr isWhole = allSee(tile, s, newest, 0, k.index(0), k.index(rows));
  Expr nextHead = (point.kvHead + 1).min(k.arg("kv_heads") - 1);
  Expr ownTile = tileStart;

  auto add = [&](int64_t half, int64_t first, ArrayRef<Expr> products,
                 ArrayRef<Expr> numbers, bool whole) {
    constexpr int64_t ofStep = 2 * WarpProduct::rows / 4;
    Values next(ArrayRef(sums).take_front(count));
    held.assign(sums.begin() + count, sums.end());
    tileStart = startOfHalf(k, half);
    for (int64_t row = 0; row < ofRound; row += tile.rows) {
      int64_t step = (first + row) / tile.rows;
      auto number = [&](const WarpProduct::Product &p) {
        return numbers[row / 4 + p.rowSlot];
      };
      AddingProducts adding{k.index(step), int(halves) * 2, whole,
                            step,          number,          minusScale};
      PanelRows::visit(k, products.slice(row / tile.rows * ofStep, ofStep),
                       int(half) * 2, [&](const WarpProduct::Product &p) {
                         addProduct(k, tile, s, point, adding, p, next);
                       });
    }
    tileStart = ownTile;
    next.append(held);
    return next;
  };

  sums.append(held);
  for (int64_t first = 0; first < rows; first += ofRound) {
    // Two rounds later are rows of this head, or of the next one.
    Expr later = k.index((first + ahead) % rows);
    tile.setHead(s.sequence, first + ahead < rows ? point.kvHead : nextHead);
    RowSource source = stagedQueries(k, tile, s);
    Values numbers = readsLse ? panels->numbersOf(k.index(first)) : Values();
    Values loaded;
    for (int64_t half = 0; half < halves; ++half) {
      ArrayRef<Expr> own = ArrayRef(keys).slice(half * ofHalf, ofHalf);
      Values products = panels->waitFor(panels->multiply(own, k.index(first)));
      if (half == 0) {
        loaded = panels->loadMixed(source, later);
      } else {
        panels->finish(); // the round that is next
        k.barrier();
        panels->storeMixed(loaded, source, later);
        if (first + ofRound == rows)
          keysAhead = fetchKeys(k, tile, s, nextHead);
      }
      sums = k.choose(
          isWhole, [&] { return add(half, first, products, numbers, true); },
          [&] { return add(half, first, products, numbers, false); });
    }
    tile.setHead(s.sequence, point.kvHead);
  }
  held.assign(sums.begin() + count, sums.end());
  sums.truncate(count);
  return sums;
}
