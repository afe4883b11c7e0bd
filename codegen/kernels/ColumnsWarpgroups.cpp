//===- ColumnsWarpgroups.cpp - all queries by products of warpgroups ------===//
//
// The form of a columns kernel with mates for GPUs that multiply by warpgroups: a block
// has the same 256 tokens, walks and results, and 16 warps for 8. A warpgroup multiplies
// 64 tokens, which stay in registers, 16 a warp, with rounds of 64 rows of queries
// (PanelRows.h). What a lane has of a product is what it has of a warp's own, so the
// policy's formula is the same (ColumnsProducts.cpp).
//
// First come rounds that only the older half of the block's tokens sees: two together, one
// for the first two of the four warpgroups and one for the others. Then these give what
// they have summed to those, take the younger half's tokens, and all have each round.
// Of either two one multiplies while the other one evaluates, so a quarter of an SM always
// has two warps that evaluate. Between two barriers
//
//   first and third    multiply step i, one copies a round of step i + 2 | evaluate step i
//   second and fourth  evaluate step i - 1                               | multiply step i
//
// Shared memory: four rounds, the numbers of eight, which are read behind the products,
// and the sums of members; two barriers a step. Registers, of the 128 that a thread has:
// 32 of tokens, 32 of products, 16 of rows' numbers.
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
         PanelRows::bytesFor(site.shape, roundsOfPanels(), numbersOfPanels()) +
                 tokenWarps() * bytesPerPiece() <=
             maxLaunchBytes;
}

bool ColumnsBuilder::hasWarpgroupForm() const {
  return isForShortCalls() ||
         (!site.shape.hasRows() && PanelRows::suits(site.shape) &&
          (hasQueryProducts() || hasDenseNorms() || hasWindowProducts() ||
           hasHeadProducts()));
}

bool kvc::hasWarpgroupForm(KernelOp kernel, const KernelSite &site) {
  return kernel.getKind() == KernelKind::Columns &&
         ColumnsBuilder(kernel, site).hasWarpgroupForm();
}

int64_t ColumnsBuilder::roundsOfPanels() const {
  int64_t some = readsAll ? 4 : rowsOfWindow() / PanelRows::rows;
  return std::max<int64_t>(some, 2);
}

int64_t ColumnsBuilder::numbersOfPanels() const {
  return readsAll ? 2 * roundsOfPanels() : roundsOfPanels();
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

Values ColumnsBuilder::walkRounds(KernelBuilder &k, LogitTile &tile,
                                  const SequenceScalars &s, const Point &point,
                                  const RowSource &source, Expr turnOfCopies,
                                  const RoundWalk &walk, Values starts) {
  constexpr int64_t ofRound = PanelRows::rows;
  Expr front = warpgroup(k) % 2 == 0, back = warpgroup(k) % 2 == 1;
  int64_t smaller = smallerWindow(walked);
  Expr minusScale = readsLse ? k.f32(-1) * k.arg("lse_scale") : Expr();
  Values keys =
      columnFragment(k, s, point.kvHead, CacheSide::Key, walk.columns);
  auto step = [&](Expr first, ArrayRef<Expr> sums) {
    Expr row = first + walk.ahead, round = (row / ofRound).toI32();
    k.when(back, [&] { k.barrier(); });
    Values products = panels->multiply(keys, row);
    k.when(front & (round % 2 == turnOfCopies),
           [&] { panels->begin(source, row + 2 * ofRound); });
    // Younger tokens are seen by fewer queries.
    Expr whole = allSee(tile, s, walk.columns + (WarpProduct::rows - 1),
                        smaller, row, row + ofRound);
    products = panels->waitFor(products);
    k.barrier();
    auto add = [&](bool whole) {
      // Here, and not once for both ways: what is the same in both, down to what the
      // special function unit waits for, would be moved in front of the barrier.
      Values numbers = readsLse ? panels->numbersOf(row) : Values();
      auto number = [&](const WarpProduct::Product &p) {
        return numbers[p.rowSlot];
      };
      AddingProducts adding{row / tile.rows, 2,      whole,
                            std::nullopt,    number, minusScale};
      Values next(sums);
      Expr ownTiles = tileStart;
      tileStart = walk.columns;
      PanelRows::visit(k, products, 0, [&](const WarpProduct::Product &p) {
        addProduct(k, tile, s, point, adding, p, next);
      });
      tileStart = ownTiles;
      if (!whole && walk.own.valid())
        for (auto [sum, old] : llvm::zip(next, sums))
          sum = (round >= walk.own).select(sum, old);
      return next;
    };
    // Of a walk over the last queries hardly a round is whole.
    Values next = walksLastQueries() ? add(false)
                                     : k.choose(
                                           whole, [&] { return add(true); },
                                           [&] { return add(false); });
    k.when(front, [&] {
      panels->finish();
      k.barrier();
    });
    return next;
  };
  return k.loop(walk.start, walk.end, walk.together, starts, step);
}

Values ColumnsBuilder::handOver(KernelBuilder &k, LogitTile &tile,
                                ArrayRef<Expr> sums) {
  Expr young = isYoung(k), mine = k.lane() % 4 < laneStep(tile.paddedGroup);
  Values result(sums);
  for (size_t i = 0; i < walked.size(); ++i) {
    SmallVector<PlacedSum> placed =
        placeTogether(k, tile, i, sums, [](Expr member) { return member; });
    // Columns of two warps have a place.
    for (PlacedSum &one : placed)
      one.at[0] = k.warp() % 8 / 2;
    k.barrier(); // earlier sums have been read
    putSums(k, placed, /*first=*/true, mine & young);
    k.barrier();
    for (auto [n, one] : llvm::enumerate(placed)) {
      Expr &sum = result[i * placed.size() + n];
      Expr both = reductionStep(one.kind, sum, k.load(memberSums, one.at));
      sum = young.select(reductionStart(k, one.kind), mine.select(both, sum));
    }
  }
  return result;
}

Values ColumnsBuilder::accumulateTogether(KernelBuilder &k, LogitTile &tile,
                                          const SequenceScalars &s,
                                          const Point &point,
                                          const RowSource &source, Expr from) {
  constexpr int64_t ofRound = PanelRows::rows, two = 2 * ofRound;
  Expr young = isYoung(k), pair = warpgroup(k) / 2;
  auto columnsFrom = [&](Expr start) {
    return start + k.warp() % 8 * WarpProduct::rows;
  };
  // The first round that the block's first token sees.
  Expr first = from * tile.rows;
  k.barrier(); // an earlier walk has read its rounds
  k.when(warpgroup(k) % 2 == 0, [&] {
    panels->begin(source, first + pair * ofRound);
    panels->finish();
  });
  k.barrier();
  // Those that copied first copy the rounds that take these ones' places.
  Expr turn = ((first / ofRound + pair) % 2).toI32();
  if (walksLastQueries()) {
    Expr start = young.select(halfStarts[1], halfStarts[0]);
    RoundWalk walk{first,      source.count,       k.index(ofRound),
                   k.index(0), columnsFrom(start), Expr()};
    return walkRounds(k, tile, s, point, source, turn, walk, startProducts(k));
  }
  // From `middle` on the younger half sees rounds, and from `alone` on they come one at a
  // time: with an odd one in front of these.
  Expr middle = from.max(firstRound(k, tile, s, halfStarts[1])) * tile.rows;
  middle = middle.min(source.count);
  Expr alone = first + (middle - first) / two * two;
  auto part = [&](Expr part, ArrayRef<Expr> carried) {
    Expr apart = part == 0, ofYoung = young & part == 1;
    Values sums = k.choose(
        apart, [&] { return Values(carried); },
        [&] { return handOver(k, tile, carried); });
    Expr columns = columnsFrom(ofYoung.select(halfStarts[1], halfStarts[0]));
    Expr own = (ofYoung.select(middle, first) / ofRound).toI32();
    RoundWalk walk{apart.select(first, alone),
                   apart.select(alone, source.count),
                   apart.select(k.index(two), k.index(ofRound)),
                   (young & apart).select(k.index(ofRound), k.index(0)),
                   columns,
                   own};
    return walkRounds(k, tile, s, point, source, turn, walk, sums);
  };
  return k.loop(0, 2, 1, startProducts(k), part);
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

SmallVector<PlacedSum>
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
