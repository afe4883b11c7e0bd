//===- ColumnsParts.cpp - reductions over tokens in a columns kernel ------===//
//
// Lanes have a token of each of the warp's tiles. Shuffles reduce these, warps that have
// 128 tokens together meet in shared memory, and the first of them stores what these
// tokens have: one number where the next kernel would read 128. Parts of deviations are
// of 64 tokens, and made by who walks all heads as well, head by head.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

int64_t ColumnsBuilder::membersOf(const TokenParts &parts) const {
  bool perQuery = headsOf(parts.value().getType()) == Axis::QueryHeads;
  return perQuery ? site.shape.group : 1;
}

int64_t ColumnsBuilder::partNumbers() const {
  int64_t numbers = 0;
  for (const TokenParts &parts : tokenParts)
    numbers += membersOf(parts) * parts.numbers();
  return numbers;
}

bool ColumnsBuilder::hasWholeParts() const {
  return hasParts(tokenWarps() * tokensPerWarp());
}

bool ColumnsBuilder::hasParts(int64_t tokens) const {
  return llvm::all_of(tokenParts, [&](const TokenParts &parts) {
    return tokens >= parts.tokens();
  });
}

void ColumnsBuilder::takeParts(KernelBuilder &k, PointEval &eval, Expr exists) {
  if (partsOfLane.empty())
    for (const TokenParts &parts : tokenParts)
      partsOfLane.emplace_back(membersOf(parts));
  existOfLane.push_back(exists);
  for (auto [parts, mine] : llvm::zip(tokenParts, partsOfLane))
    for (auto [j, values] : llvm::enumerate(mine)) {
      Expr start = reductionStart(k, parts.kind);
      values.push_back(exists.select(eval(parts.value(), int(j)), start));
    }
}

void ColumnsBuilder::reduceParts(KernelBuilder &k) {
  Values numbers;
  for (auto [parts, mine] : llvm::zip(tokenParts, partsOfLane))
    for (const Values &values : mine)
      numbers.append(parts.ofLanes(k, values, existOfLane));
  existOfLane.clear();
  if (numbers.empty())
    return;
  // Rounds of the next head's rows come behind a barrier, if there are any.
  if (walksHeads() && !staged && !panels)
    k.barrier();
  Expr mine = k.lane() == 0;
  if (walksHeads())
    mine = mine & isFirstMate(k);
  k.when(mine, [&] {
    for (auto [i, number] : llvm::enumerate(numbers))
      k.store(number, partsOfWarps, {placeOfSums(k), k.index(int64_t(i))});
  });
  partsOfLane.clear();
}

void ColumnsBuilder::storeParts(KernelBuilder &k, const SequenceScalars &s,
                                const Point &point) {
  if (tokenParts.empty())
    return;
  teamBarrier(k);
  // Who walks the heads of a cache of rows has positions.
  Expr start = tileStart, past = s.past;
  if (hasRow.valid()) {
    start = positionsStart;
    past = positionsPast;
  }
  Expr isOwn = isFirstMate(k);
  int64_t from = 0;
  for (const TokenParts &parts : tokenParts) {
    int64_t together = parts.tokens() / tokensPerWarp();
    assert(hasWholeParts() && parts.tokens() % tokensPerWarp() == 0 &&
           "a block has whole parts");
    assert((mates == 1 || tokenWarps() / 2 % together == 0) &&
           "so have both ends of a past");
    Expr first = whereForTeam(isOwn & (piece % together == 0) & (start < past));
    int64_t members = membersOf(parts), numbers = parts.numbers();
    Expr member = k.lane();
    k.when(first & (member < members), [&] {
      SmallVector<Values> ofWarps(together);
      for (auto [i, one] : llvm::enumerate(ofWarps))
        for (int64_t n = 0; n < numbers; ++n)
          one.push_back(k.load(partsOfWarps, {placeOfSums(k) + int64_t(i),
                                              member * numbers + (from + n)}));
      Values all = parts.joined(k, ofWarps);
      auto yielded = yield.getValues();
      auto names = outputBuffers(kernel);
      for (auto [result, number] : llvm::zip(parts.op->getResults(), all)) {
        auto at = llvm::find(yielded, result) - yielded.begin();
        k.store(number, scratchBuffer(k, names[at], result.getType()),
                {s.sequence, point.kvHead * members + member,
                 start / parts.tokens()});
      }
    });
    from += members * numbers;
  }
}
