//===- ColumnsWarpgroups.cpp - all queries by products of warpgroups ------===//
//
// The form of a columns kernel with mates for GPUs that multiply by warpgroups: the same
// block of 8 warps with the same 256 tokens, walks and results. Two warpgroups have 64
// tokens of either half of the block, which stay in registers, 16 a warp; rounds of 64
// rows of queries are multiplied with them (PanelRows.h). What a lane has of a product is
// what it has of a warp's own, so the policy's formula is the same (ColumnsProducts.cpp).
//
// The warpgroups are half a round apart: one multiplies while the other one evaluates.
// Between two barriers
//
//   the first   multiplies round i, and begins to copy round i + 1 | evaluates round i
//   the second  evaluates round i - 1                              | multiplies round i
//
// Rounds that only the older half of the tokens sees are half as much work. Shared memory:
// two rounds and their numbers, and the sums of members; two barriers a round.
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
  Expr first[halves], columns[halves];
  Values keys[halves];
  for (int64_t half = 0; half < halves; ++half) {
    first[half] =
        from.max(firstRound(k, tile, s, halfStarts[half])) * tile.rows;
    columns[half] = halfStarts[half] + k.warp() * WarpProduct::rows;
    keys[half] =
        columnFragment(k, s, point.kvHead, CacheSide::Key, columns[half]);
  }
  Expr front = warpgroup(k) == 0, back = warpgroup(k) == 1;
  int64_t smaller = smallerWindow(walked);
  Expr minusScale = readsLse ? k.f32(-1) * k.arg("lse_scale") : Expr();
  k.barrier(); // an earlier walk has read its rounds
  k.when(front, [&] {
    panels->begin(source, first[0]);
    panels->finish();
  });
  k.barrier();

  auto evaluate = [&](Expr row, ArrayRef<Expr> products, ArrayRef<Expr> numbers,
                      bool whole, ArrayRef<Expr> sums) {
    // Here, and not once for both ways: what is the same in both, down to what the special
    // function unit waits for, would be moved in front of the barrier.
    auto number = [&](const WarpProduct::Product &p) {
      return numbers[p.rowSlot];
    };
    Adding adding{row / tile.rows, int(halves) * 2, whole,
                  std::nullopt,    number,          minusScale};
    Values next(sums);
    Expr ownTiles = tileStart;
    for (size_t half = 0; half < PanelRows::parts(products); ++half) {
      tileStart = columns[half];
      PanelRows::visit(k, PanelRows::part(products, half), int(half) * 2,
                       [&](const WarpProduct::Product &p) {
                         addProduct(k, tile, s, point, adding, p, next);
                       });
    }
    tileStart = ownTiles;
    return next;
  };
  auto walk = [&](Expr start, Expr end, int64_t count, ArrayRef<Expr> carried) {
    auto round = [&](Expr row, ArrayRef<Expr> sums) {
      k.when(back, [&] { k.barrier(); });
      Values products;
      for (int64_t half = 0; half < count; ++half)
        products.append(panels->multiply(keys[half], row));
      k.when(front, [&] { panels->begin(source, row + PanelRows::rows); });
      // The next round's take their place.
      Values numbers = readsLse ? panels->numbersOf(row) : Values();
      // Younger tokens are seen by fewer queries.
      Expr whole = allSee(tile, s, columns[count - 1] + (WarpProduct::rows - 1),
                          smaller, row, row + PanelRows::rows);
      products = panels->waitFor(products);
      k.barrier();
      auto add = [&](bool whole) {
        return evaluate(row, products, numbers, whole, sums);
      };
      // Of a walk over the last queries hardly a round is whole.
      Values next = walksApart() && smaller
                        ? add(false)
                        : k.choose(
                              whole, [&] { return add(true); },
                              [&] { return add(false); });
      k.when(front, [&] {
        panels->finish();
        k.barrier();
      });
      return next;
    };
    return k.loop(start, end, PanelRows::rows, carried, round);
  };
  Expr end = source.count, middle = first[1].min(end).max(first[0]);
  Values sums = walk(first[0], middle, 1, startProducts(k));
  return walk(middle, end, halves, sums);
}

/// Of all queries a half is one of the block's, and a piece that of two warps of each
/// warpgroup; of a window a warpgroup has pieces of its own.
std::pair<Expr, Expr> ColumnsBuilder::placeOfColumn(KernelBuilder &k,
                                                    int64_t half,
                                                    int64_t below) const {
  Expr column = k.warp() % 2 * WarpProduct::rows + k.lane() / 4;
  Expr piece = readsAll ? warpgroup(k) + half * (tokenWarps() / 2)
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
  for (int64_t half = 0; half < halves; ++half)
    for (int64_t below = 0; below < 2; ++below)
      for (int c = 0; c < classes; ++c) {
        size_t slot = (walk * halves + half) * 2 + below;
        Expr sum = reduceLanesFrom(k, kind, sums[slot * classes + c],
                                   laneStep(tile.paddedGroup), 4);
        Expr row = k.lane() % 4 * 2 + (c / 2 * 8 + c % 2);
        auto [piece, column] = placeOfColumn(k, half, below);
        result.push_back(
            {kind, sum, {piece, rowOf(row % tile.paddedGroup), column}});
      }
  return result;
}
