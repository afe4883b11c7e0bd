//===- ColumnsWarpgroupWindows.cpp - a window by products of warpgroups ---===//
//
// The form of a columns kernel whose window's rows stay in shared memory for GPUs that
// multiply by warpgroups: the same block of four warps, or of eight, with the same tokens of
// a stretch, and as many blocks on an SM. A warpgroup has 128 tokens. It multiplies 64 of
// them, which pass through registers, 16 a warp, with 64 rows at a time (PanelRows.h). A row
// leaves shared memory once for four warps, and not for each. What a lane has of a product is
// what it has of a warp's own, so the policy's formula is the same (ColumnsProducts.cpp).
//
// Warpgroups beside it multiply while this one evaluates. Shared memory: the rows and their
// numbers, and the sums of members. Barriers: one behind the rows, where log-sum-exps are read
// one behind these, and two a stretch for each reduction, for a warpgroup alone.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"
#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

bool ColumnsBuilder::hasWindowProducts() const {
  int64_t most = warps == usualWarps ? maxSharedBytes : maxLaunchBytes;
  return fillsAnSM() && attends && warps % 4 == 0 && tiles == 1 &&
         rowsOfWindow() % PanelRows::rows == 0 &&
         PanelRows::bytesFor(site.shape, roundsOfPanels()) +
                 tokenWarps() * bytesPerPiece() <=
             most;
}

Expr ColumnsBuilder::startOfHalf(KernelBuilder &k, int64_t half) const {
  constexpr int64_t tokens = 64;
  return blockStart + warpgroup(k) * (halves * tokens) + half * tokens +
         k.warp() % 4 * WarpProduct::rows;
}

Values ColumnsBuilder::keysOfHalf(KernelBuilder &k, const SequenceScalars &s,
                                  Expr kvHead, int64_t half) {
  Expr first = startOfHalf(k, half);
  return PanelRows::wideFragment(
      k, sideBuffer(k, CacheSide::Key), [&](Expr row) {
        return SmallVector<Expr>{s.sequence, kvHead,
                                 clamp(k, first + row, s.rows)};
      });
}

void ColumnsBuilder::copyWindow(KernelBuilder &k, LogitTile &tile,
                                const SequenceScalars &s) {
  RowSource source = stagedQueries(k, tile, s);
  int64_t together = warpgroups() * PanelRows::rows;
  // One warpgroup's rounds have places that are known now.
  auto own = [&](int64_t first) {
    return warpgroups() > 1 ? warpgroup(k) * PanelRows::rows + first
                            : k.index(first);
  };
  int64_t whole = rowsOfWindow() / together * together;
  for (int64_t first = 0; first < whole; first += 2 * together) {
    SmallVector<Expr> rounds{own(first)};
    if (first + together < whole)
      rounds.push_back(own(first + together));
    panels->beginMixed(source, rounds);
  }
  if (whole < rowsOfWindow()) {
    Expr rest = own(whole);
    k.when(rest < rowsOfWindow(), [&] { panels->beginMixed(source, {rest}); });
  }
  panels->finish();
  k.barrier(); // all rows are there
  if (readsLse) {
    panels->scaleNumbers(warps * warpSize, k.f32(-1) * k.arg("lse_scale"));
    k.barrier(); // all numbers are shifts
  }
}

Values ColumnsBuilder::accumulateWindow(KernelBuilder &k, LogitTile &tile,
                                        const SequenceScalars &s,
                                        const Point &point) {
  int64_t rows = rowsOfWindow();
  Expr isShift = k.f32(1); // copyWindow has scaled the numbers
  Values sums = startProducts(k);
  Expr ownTile = tileStart;
  for (int64_t half = 0; half < halves; ++half) {
    Expr columns = startOfHalf(k, half);
    Values keys = keysOfHalf(k, s, point.kvHead, half);
    tileStart = columns;
    Expr whole = allSee(tile, s, columns + (WarpProduct::rows - 1),
                        /*smaller=*/0, k.index(0), k.index(rows));
    for (int64_t first = 0; first < rows; first += PanelRows::rows) {
      Values products = panels->waitFor(panels->multiply(keys, k.index(first)));
      auto add = [&](bool whole) {
        Values numbers =
            readsLse ? panels->numbersOf(k.index(first)) : Values();
        auto number = [&](const WarpProduct::Product &p) {
          return numbers[p.rowSlot];
        };
        AddingProducts adding{k.index(first / tile.rows),
                              int(halves) * 2,
                              whole,
                              std::nullopt,
                              number,
                              isShift};
        Values next = sums;
        PanelRows::visit(k, products, int(half) * 2,
                         [&](const WarpProduct::Product &p) {
                           addProduct(k, tile, s, point, adding, p, next);
                         });
        return next;
      };
      sums = k.choose(
          whole, [&] { return add(true); }, [&] { return add(false); });
    }
  }
  tileStart = ownTile;
  return sums;
}
