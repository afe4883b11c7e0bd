//===- ColumnsWarpgroups.cpp - all queries by products of warpgroups ------===//
//
// The form of a columns kernel with mates for GPUs that multiply by warpgroups: a block
// has the same 256 tokens, walks and results, and 16 warps for 8. Each of four warpgroups
// has 64 of the tokens, two of them those of either half of the block, which stay in
// registers, 16 a warp; rounds of 64 rows of queries are multiplied with them
// (PanelRows.h). What a lane has of a product is what it has of a warp's own, so the
// policy's formula is the same (ColumnsProducts.cpp).
//
// The two warpgroups of a half are half a round apart: one multiplies while the other one
// evaluates, and a quarter of an SM always has two warps that evaluate, one of each half.
// Between two barriers
//
//   the first of each   multiply round i, and begin to copy round i + 1 | evaluate round i
//   the second          evaluate round i - 1                            | multiply round i
//
// Rounds that only the older half of the tokens sees the younger one's warpgroups pass.
// Shared memory: two rounds and their numbers, and the sums of members; two barriers a
// round. Registers, of the 128 that a thread has: 32 of tokens, 32 of products, 16 of
// rows' numbers.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"
#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

bool ColumnsBuilder::hasQueryProducts() const {
  return readsAll && !isMixed() && attends && inRegisters && mates == 2 &&
         warps == 8 && tiles == 2 && projectedNorms.empty() &&
         PanelRows::bytesFor(site.shape) + tokenWarps() * bytesPerPiece() <=
             maxSharedBytes;
}

bool ColumnsBuilder::hasWarpgroupForm() const {
  return !site.shape.hasRows() && PanelRows::suits(site.shape) &&
         (hasQueryProducts() || hasDenseNorms() || hasWindowProducts() ||
          hasHeadProducts());
}

bool kvc::hasWarpgroupForm(KernelOp kernel, const KernelSite &site) {
  return kernel.getKind() == KernelKind::Columns &&
         ColumnsBuilder(kernel, site).hasWarpgroupForm();
}

/// Twice the warps of the plain form, since a warp has half as many products at a time.
void ColumnsBuilder::planWarpgroups() {
  mates *= 2;
  warps *= 2;
}

Values ColumnsBuilder::columnFragment(KernelBuilder &k,
                                      const SequenceScalars &s, Expr kvHead,
                                      CacheSide side, Expr first) {
  return PanelRows::fragment(k, sideBuffer(k, side), [&](Expr row) {
    return SmallVector<Expr>{s.sequence, kvHead, clamp(k, first + row, s.rows)};
  });
}

Values ColumnsBuilder::accumulateTogether(KernelBuilder &k, LogitTile &tile,
                                          const SequenceScalars &s,
                                          const Point &point,
                                          const RowSource &source, Expr from) {
  Expr group = warpgroup(k), front = group % 2 == 0, back = group % 2 == 1;
  Expr start = (group < halves).select(halfStarts[0], halfStarts[1]);
  Expr columns = start + k.warp() % 8 * WarpProduct::rows;
  Values keys = columnFragment(k, s, point.kvHead, CacheSide::Key, columns);
  // The block's first round, and the warpgroup's.
  auto firstOf = [&](Expr token) {
    return from.max(firstRound(k, tile, s, token)) * tile.rows;
  };
  Expr end = source.count, first = firstOf(halfStarts[0]);
  Expr own = firstOf(start).min(end);
  int64_t smaller = smallerWindow(walked);
  Expr minusScale = readsLse ? k.f32(-1) * k.arg("lse_scale") : Expr();
  auto copyRound = [&](Expr row) {
    k.when(front, [&] { panels->begin(source, row); });
  };
  k.barrier(); // an earlier walk has read its rounds
  copyRound(first);
  k.when(front, [&] { panels->finish(); });
  k.barrier();

  auto pass = [&](Expr row) {
    copyRound(row + PanelRows::rows);
    k.barrier();
    k.when(front, [&] { panels->finish(); });
    k.barrier();
  };
  k.loop(first, own, PanelRows::rows, pass);

  auto round = [&](Expr row, ArrayRef<Expr> sums) {
    k.when(back, [&] { k.barrier(); });
    Values products = panels->multiply(keys, row);
    copyRound(row + PanelRows::rows);
    // The next round's take their place.
    Values numbers = readsLse ? panels->numbersOf(row) : Values();
    // Younger tokens are seen by fewer queries.
    Expr whole = allSee(tile, s, columns + (WarpProduct::rows - 1), smaller,
                        row, row + PanelRows::rows);
    products = panels->waitFor(products);
    k.barrier();
    auto add = [&](bool whole) {
      // Here, and not once for both ways: what is the same in both, down to what the
      // special function unit waits for, would be moved in front of the barrier.
      auto number = [&](const WarpProduct::Product &p) {
        return numbers[p.rowSlot];
      };
      Adding adding{row / tile.rows, 2,      whole,
                    std::nullopt,    number, minusScale};
      Values next(sums);
      Expr ownTiles = tileStart;
      tileStart = columns;
      PanelRows::visit(k, products, 0, [&](const WarpProduct::Product &p) {
        addProduct(k, tile, s, point, adding, p, next);
      });
      tileStart = ownTiles;
      return next;
    };
    // Of a walk over the last queries hardly a round is whole.
    Values next =
        walksApart() && smaller
            ? add(false)
            : k.choose(
                  whole, [&] { return add(true); }, [&] { return add(false); });
    k.when(front, [&] {
      panels->finish();
      k.barrier();
    });
    return next;
  };
  return k.loop(own, end, PanelRows::rows, startProducts(k), round);
}

/// Of all queries a warpgroup has one piece; of a window a piece of each half.
std::pair<Expr, Expr> ColumnsBuilder::placeOfColumn(KernelBuilder &k,
                                                    int64_t half,
                                                    int64_t below) const {
  Expr column = k.warp() % 2 * WarpProduct::rows + k.lane() / 4;
  Expr piece = readsAll ? warpgroup(k)
                        : warpgroup(k) * 4 + k.warp() % 4 / 2 + half * halves;
  return {piece, column + below * 8};
}

SmallVector<ColumnsBuilder::PlacedSum>
ColumnsBuilder::placeTogether(KernelBuilder &k, LogitTile &tile, size_t walk,
                              ArrayRef<Expr> sums,
                              llvm::function_ref<Expr(Expr)> rowOf) {
  int classes = classesOf(tile.paddedGroup);
  ReduceKind kind = ReduceOp(walked[walk]).getKind();
  SmallVector<PlacedSum> result;
  for (int64_t half = 0; half < halvesOfWarp(); ++half)
    for (int64_t below = 0; below < 2; ++below)
      for (int c = 0; c < classes; ++c) {
        size_t slot = (walk * halvesOfWarp() + half) * 2 + below;
        Expr sum = reduceLanesFrom(k, kind, sums[slot * classes + c],
                                   laneStep(tile.paddedGroup), 4);
        Expr row = k.lane() % 4 * 2 + (c / 2 * 8 + c % 2);
        auto [piece, column] = placeOfColumn(k, half, below);
        result.push_back(
            {kind, sum, {piece, rowOf(row % tile.paddedGroup), column}});
      }
  return result;
}
