//===- ColumnsClusters.cpp - blocks of a columns kernel that share out heads -===//
//
// The form of short calls (ColumnsTeams.cpp) has blocks of 64 tokens, and of a past of 4096
// tokens there are 64, for 132 SMs. GPUs with clusters (sm_90a) have a form of it in which two
// blocks beside each other have the same tokens then: partners, whose teams take turns at
// heads. Behind the last head the second one writes what it has of the rows that are reduced
// over heads to the shared memory of the first, which ends as if it had had all heads. Of a
// longer past each block has tokens of its own, and no block waits for the other.
//
//   tokens of the past   blocks           tokens of a cluster
//   up to 4096           2 ceil(T / 64)   64
//   up to 8192           128              128, those that are there
//
// Other GPUs run as many blocks of the form without partners, of which the last ones may have
// no tokens. Barriers of the cluster: one in front of the walk, behind which the first block has
// begun, and one behind what is written.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

Expr ColumnsBuilder::takePartner(KernelBuilder &k, const SequenceScalars &s,
                                 Expr block) {
  isPartner = s.past <= k.index(longestOfPartners);
  partner = isPartner.select(block % partners, k.index(0));
  return isPartner.select(block / partners, block);
}

Expr ColumnsBuilder::headsTogether(KernelBuilder &k) const {
  if (partners == 1)
    return k.index(teams);
  return isPartner.select(k.index(teams * partners), k.index(teams));
}

void ColumnsBuilder::meetPartners(KernelBuilder &k) const {
  if (partners > 1)
    k.when(isPartner, [&] { k.clusterBarrier(partners); });
}

/// Each piece of tokens has the rows that its lanes hold, of lanes with the same queries once.
int64_t ColumnsBuilder::bytesOfPartners() const {
  int64_t lanes = warpSize / laneStep(site.shape.group);
  return partners > 1 ? tokenWarps() * heldOfAll() * lanes * 4 : 0;
}

void ColumnsBuilder::joinPartners(KernelBuilder &k, ArrayRef<ReduceKind> kinds,
                                  Values &ofBlock, int64_t lanes) {
  int64_t each = warpSize / lanes, ofPiece = each * int64_t(ofBlock.size());
  // Nobody uses it in front of the second barrier.
  Buffer ofSecond = k.shared(k.b.getF32Type(), bytesOfPartners() / 4);
  auto place = [&](size_t number) {
    return piece * ofPiece + k.lane() / lanes + int64_t(number) * each;
  };
  k.when((partner == 1) & (team == 0) & (k.lane() % lanes == 0), [&] {
    for (auto [i, mine] : llvm::enumerate(ofBlock))
      k.storeToFirst(mine, ofSecond, {place(i)});
  });
  meetPartners(k);
  auto join = [&] {
    Values joined;
    for (auto [i, mine] : llvm::enumerate(ofBlock))
      joined.push_back(
          reductionStep(kinds[i], mine, k.load(ofSecond, {place(i)})));
    return joined;
  };
  ofBlock = k.choose(isPartner, join, [&] { return ofBlock; });
}
