//===- ColumnsTeams.cpp - warps of a columns kernel that share out heads --===//
//
// Who walks all heads for a block's tokens has two teams of warps: one takes the even
// heads, one the odd ones, and each has rounds of its head's queries for itself. No warp
// waits for another inside a head: a team has a barrier of its own (simt.team_barrier). Keys
// are read once. Behind the last head the rows that are reduced over the heads are joined,
// team by team, so that the order is fixed.
//
// Where the order is no matter, the call's longest sequence says how many teams there are.
// A short call has a kernel of its own (hasFormOfShortCalls):
//
//   longest      warps   teams   tokens a block   blocks an SM
//   up to 8192   8       4       64               1              more warps for each token,
//                                                                  and two blocks where there
//                                                                  are clusters
//   longer       4       1       128              2              fewer blocks read queries
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

bool kvc::hasFormOfShortCalls(KernelOp kernel, const KernelSite &site) {
  return kernel.getKind() == KernelKind::Columns &&
         ColumnsBuilder(kernel, site).hasFormOfShortCalls();
}

Expr ColumnsBuilder::whereForTeam(Expr condition) const {
  return isForTeam.valid() ? condition & isForTeam : condition;
}

Values ColumnsBuilder::joinTeams(KernelBuilder &k, ArrayRef<ReduceKind> kinds,
                                 ArrayRef<Expr> ofTeam, int64_t lanes) {
  Values joined(ofTeam);
  // As much as memberSums has for the warps of a piece.
  int64_t each = warpSize / lanes,
          room = teams * LogitTile::paddedGroupOf(k.shape) * warpSize,
          together = room / each;
  auto place = [&](int64_t number) {
    return SmallVector<Expr>{k.index(0), k.index(0),
                             piece * room + k.lane() / lanes +
                                 number % together * each};
  };
  for (int64_t from = 0; from < int64_t(joined.size()); from += together) {
    int64_t end = std::min<int64_t>(from + together, joined.size());
    for (int64_t turn = 1; turn < teams; ++turn) {
      k.barrier(); // what was there has been read
      k.when((team == turn) & (k.lane() % lanes == 0), [&] {
        for (int64_t i = from; i < end; ++i)
          k.store(joined[i], memberSums, place(i));
      });
      k.barrier();
      for (int64_t i = from; i < end; ++i)
        joined[i] =
            reductionStep(kinds[i], joined[i], k.load(memberSums, place(i)));
    }
  }
  return joined;
}
