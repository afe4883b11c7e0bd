//===- ColumnsMates.cpp - which warp of a columns kernel has which tokens -===//
//
// Without mates the warps of a block have pieces of tokens that follow each other.
//
// Over all queries an older piece has more to do: tokens are seen by the queries
// behind them. A grid that fills a GPU several times evens that out, a small one
// ends with the block of the first tokens. So of a short past a block has half of
// its pieces from the front and half from the back, which together are the same
// work for all blocks. A warp leaves out the rounds of queries that see none of its
// piece, and mates of a piece are on different quarters of an SM than the same
// mates of others, so that each quarter has pieces of both kinds.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"

using namespace mlir;
using namespace kvc;

Expr ColumnsBuilder::isFirstMate(KernelBuilder &k) const {
  return mates > 1 ? mate == 0 : k.boolean(true);
}

Expr ColumnsBuilder::takeTokens(KernelBuilder &k, const SequenceScalars &s,
                                Expr block) {
  int64_t pieces = tokenWarps();
  mate = k.index(0);
  piece = k.warp();
  if (partners > 1)
    block = takePartner(k, s, block);
  Expr blockFirst = block * pieces * tokensPerWarp();
  Expr first = blockFirst + piece * tokensPerWarp(), some = k.boolean(true);
  if (mates > 1) {
    mate = k.warp() / pieces;
    piece = (k.warp() + mate * (pieces / 2)) % pieces;
    first = blockFirst + piece * tokensPerWarp();
  }
  if (teams > 1) {
    team = k.warp() / pieces;
    piece = k.warp() % pieces;
    first = blockFirst + piece * tokensPerWarp();
    staged->shareOut(teams, team);
    ownHead =
        partners > 1 ? isPartner.select(team * partners + partner, team) : team;
  }
  if (mates > 1 && readsAll) {
    int64_t half = pieces / 2, tokens = half * tokensPerWarp();
    Expr halves = (s.past + (tokens - 1)) / tokens;
    Expr folded = s.past <= k.index(longestFolded);
    Expr front = folded.select(block, block * 2),
         back = folded.select(halves - 1 - block, block * 2 + 1);
    // The half in the middle of an odd number is at the front of its block alone.
    some = front <= back;
    back = (front < back).select(back, halves);
    blockFirst = front * tokens;
    halfStarts[0] = blockFirst;
    halfStarts[1] = back * tokens;
    first = (piece < half).select(front, back) * tokens +
            piece % half * tokensPerWarp();
  }
  // Warps that share stages, or what they make of tokens, go the same way.
  bool together = staged || panels || !tokenParts.empty();
  some = some & ((together ? blockFirst : first) < s.past);
  tileStart = halo ? first - halo : first;
  blockStart = halo ? blockFirst - halo : blockFirst;
  return some;
}
