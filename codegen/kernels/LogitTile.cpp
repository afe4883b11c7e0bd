//===- LogitTile.cpp - a warp's tile of Q.K^T -----------------------------===//

#include "codegen/kernels/LogitTile.h"

#include "codegen/kernels/Kernels.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

LogitTile::LogitTile(KernelBuilder &k, int64_t warps, bool spare,
                     WarpProduct::Stays stays)
    : paddedGroup(llvm::PowerOf2Ceil(k.shape.group)), k(k),
      product(k, spare, stays) {
  tile = k.shared(k.b.getF32Type(), warps * rows * pitch,
                  {k.index(rows * pitch), k.index(pitch)});
  q = k.buffer("q", {k.arg("q_batch"), k.arg("q_head"), k.arg("q_row")});
  keys = sideBuffer(k, CacheSide::Key);
  scale = k.arg("logit_scale");
}

void LogitTile::setQueries(Expr queries) { this->queries = queries; }

Expr LogitTile::steps() const {
  return (queries + (queriesPerStep() - 1)) / queriesPerStep();
}

void LogitTile::loadKeys(Expr sequence, Expr kvHead, Expr firstToken,
                         Expr end) {
  this->sequence = sequence;
  this->kvHead = kvHead;
  product.loadColumns(keys, [=, this](Expr column) {
    return SmallVector<Expr>{
        sequence, kvHead, (firstToken + column).max(k.index(0)).min(end - 1)};
  });
}

std::pair<Expr, Expr> LogitTile::queryOf(Expr step, Expr row) {
  Expr member = (row % paddedGroup).min(k.index(k.shape.group - 1));
  Expr query = (step * queriesPerStep() + row / paddedGroup).min(queries - 1);
  return {kvHead * k.shape.group + member, query};
}

void LogitTile::compute(Expr step, Shift shift) {
  // A lane has several products of a row, with one shift.
  llvm::SmallDenseMap<Value, Expr> shifts;
  auto shiftOf = [&](Expr row) {
    Expr &known = shifts[row];
    if (!known.valid()) {
      auto [head, query] = queryOf(step, row);
      known = shift(head, query);
    }
    return known;
  };
  product.multiply(
      q,
      [&](Expr row) {
        auto [head, query] = queryOf(step, row);
        return SmallVector<Expr>{sequence, head,
                                 k.arg("q_rows") - queries + query};
      },
      [&](Expr logit, Expr row, Expr column, int) {
        Expr value = logit * scale;
        k.store(shift ? value - shiftOf(row) : value, tile,
                {k.warp(), row, column});
      });
  k.syncWarp();
}

Expr LogitTile::at(Expr row, Expr column) {
  return k.load(tile, {k.warp(), row, column});
}
