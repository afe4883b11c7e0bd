//===- ColumnsMembers.cpp - sums of products, by member of the group ------===//
//
// Which member of the group a lane's row belongs to depends on the lane, and is the
// same in every step, so that a lane has accumulators of its members alone:
//
//   group   accumulators a token   members of a lane
//   1       1                      the only one, lanes of a quad have other queries
//   2       2                      both, lanes of a quad have other queries
//   4       2                      two of four, every other lane the same
//   8       2                      two of eight
//   16      4                      four of sixteen
//
// Behind all rows shuffles add up what lanes of a quad have of the same member, and
// shared memory takes the sums to the lane that has the token: those of mates one
// behind the other, a barrier for each, so that the order is fixed.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

int64_t ColumnsBuilder::sumsTogether() const {
  return holdsRows && mates > 1 ? std::max<int64_t>(windows.size(), 1) : 1;
}

Expr ColumnsBuilder::placeOfSums(KernelBuilder &k) const {
  return teams > 1 ? k.warp() : piece;
}

void ColumnsBuilder::putSums(KernelBuilder &k, ArrayRef<PlacedSum> sums,
                             bool first, Expr mine) {
  k.when(mine, [&] {
    for (const PlacedSum &one : sums) {
      Expr total =
          first ? one.sum
                : reductionStep(one.kind, k.load(memberSums, one.at), one.sum);
      k.store(total, memberSums, one.at);
    }
  });
}

Values ColumnsBuilder::sumsOfMembers(KernelBuilder &k, LogitTile &tile,
                                     int64_t number, ArrayRef<Expr> sums) {
  int64_t group = tile.paddedGroup;
  int classes = classesOf(group), all = tile.products().slots(),
      slots = tile.products().slotsOfTile();
  Expr quad = k.lane() % 4;
  int64_t apart = laneStep(group);
  auto together = [&] {
    if (panels && !readsAll && warpgroups() > 1)
      return k.teamBarrier(PanelRows::groupThreads);
    mates > 1 || panels ? k.barrier() : k.syncWarp();
  };
  auto rowOf = [&](size_t i, Expr member) {
    return SmallVector<Expr>{placeOfSums(k),
                             member + int64_t(i) % sumsTogether() * group};
  };
  // In front of all stores, so that no shuffle waits for another.
  auto placed = [&](size_t i) {
    if (panels)
      return placeTogether(k, tile, i, sums,
                           [&](Expr member) { return rowOf(i, member)[1]; });
    ReduceKind kind = ReduceOp(walked[i]).getKind();
    SmallVector<PlacedSum> result;
    for (int slot = 0; slot < slots; ++slot)
      for (int c = 0; c < classes; ++c) {
        Expr sum = sums[(i * all + number * slots + slot) * classes + c];
        sum = reduceLanesFrom(k, kind, sum, apart, 4);
        Expr row = quad * 2 + (c / 2 * 8 + c % 2);
        SmallVector<Expr> at = rowOf(i, row % group);
        result.push_back(
            {kind, sum, {at[0], at[1], tile.products().columnOf(slot)}});
      }
    return result;
  };
  Values result;
  for (size_t from = 0; from < walked.size(); from += sumsTogether()) {
    size_t end = std::min<size_t>(from + sumsTogether(), walked.size());
    SmallVector<PlacedSum> mine;
    for (size_t i = from; i < end; ++i)
      mine.append(placed(i));
    together(); // earlier sums have been read
    // One mate behind the other, so that the order is fixed. Of warpgroups each sum is one
    // warp's.
    for (int64_t turn = 0; turn < (panels ? 1 : mates); ++turn) {
      Expr own = quad < apart;
      if (panels && readsAll)
        own = own & (k.warp() % 4 / 2 == number);
      else if (mates > 1)
        own = own & (mate == turn);
      if (turn)
        k.barrier();
      putSums(k, mine, turn == 0, own);
    }
    together();
    for (size_t i = from; i < end; ++i)
      forMembers(k, ReduceOp(walked[i]).getValue(), [&](int member) {
        SmallVector<Expr> at = rowOf(i, k.index(member));
        at.push_back(k.lane());
        result.push_back(k.load(memberSums, at));
      });
  }
  return result;
}
