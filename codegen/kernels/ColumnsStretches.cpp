//===- ColumnsStretches.cpp - several stretches of tokens for a block -----===//
//
// As many tokens as a block's warps have at once are a stretch. Where all rows of a
// window fit into shared memory together, a block copies them once and has several
// stretches of its head, one behind the other: of a long past there are no more blocks
// than run at the same time, and the rows leave L2 once for each of these. A
// stretch has what it would have in a block of its own, so that no bytes depend on how
// many blocks there are. A barrier a stretch.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"
#include "codegen/kernels/RowStates.h"

using namespace mlir;
using namespace kvc;

bool ColumnsBuilder::readsOneWindow() const {
  return inRegisters && mates == 1 && !readsAll && !walksHeads() &&
         smallerWindow(windows) == 0 && rowsOfWindow() % WarpProduct::rows == 0;
}

bool ColumnsBuilder::rowsFitAtOnce() const {
  return readsOneWindow() && rowsOfWindow() <= 2 * stagedRows;
}

bool ColumnsBuilder::keepsRows() const {
  return rowsFitAtOnce() && projectedNorms.empty();
}

void ColumnsBuilder::walkStretches(KernelBuilder &k, LogitTile &tile,
                                   const SequenceScalars &s) {
  int64_t tokens = tokenWarps() * tokensPerWarp();
  Expr head = k.block(gpu::Dimension::y), heads = k.arg("kv_heads");
  Expr first = k.block(gpu::Dimension::x),
       count = (s.past + (tokens - 1)) / tokens;
  k.when(hasWork(k, s, kernel) & (first < count), [&] {
    tile.setHead(s.sequence, head);
    if (panels)
      copyWindow(k, tile, s);
    else
      staged->beginAll(stagedQueries(k, tile, s), rowsOfWindow());
    // Blocks of a head, as the grid has them where there are more stretches than that.
    Expr blocks = (heads + (mostBlocks() - 1)) / heads;
    k.loop(first, count, blocks, [&](Expr stretch) {
      takeTokens(k, s, stretch);
      walkTokens(k, &tile, s);
    });
  });
}
