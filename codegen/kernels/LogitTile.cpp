//===- LogitTile.cpp - a warp's tile of Q.K^T -----------------------------===//

#include "codegen/kernels/LogitTile.h"

#include "codegen/kernels/Kernels.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

LogitTile::LogitTile(KernelBuilder &k, int64_t warps, bool spare,
                     WarpProduct::Stays stays, int64_t tiles, int64_t steps)
    : paddedGroup(paddedGroupOf(k.shape)), k(k),
      product(k, spare, stays, tiles) {
  if (warps)
    tile = k.shared(k.b.getF32Type(), warps * steps * rows * pitch,
                    {k.index(steps * rows * pitch), k.index(pitch)});
  q = k.buffer("q", {k.arg("q_batch"), k.arg("q_head"), k.arg("q_row")});
  keys = sideBuffer(k, CacheSide::Key);
  scale = k.arg("logit_scale");
}

int64_t LogitTile::paddedGroupOf(const Shape &shape) {
  return llvm::PowerOf2Ceil(shape.group);
}

void LogitTile::setQueries(Expr queries, bool someMissing) {
  this->queries = queries;
  queriesMissing = someMissing;
}

Expr LogitTile::steps() const {
  return (queries + (queriesPerStep() - 1)) / queriesPerStep();
}

void LogitTile::setHead(Expr sequence, Expr kvHead) {
  this->sequence = sequence;
  this->kvHead = kvHead;
}

/// Where the keys of a tile are, by column.
static auto keysFrom(KernelBuilder &k, Expr sequence, Expr kvHead,
                     Expr firstToken, Expr end) {
  return [=, &k](Expr column) {
    return SmallVector<Expr>{
        sequence, kvHead, (firstToken + column).max(k.index(0)).min(end - 1)};
  };
}

void LogitTile::loadKeys(Expr sequence, Expr kvHead, Expr firstToken, Expr end,
                         ArrayRef<Expr> fetched) {
  setHead(sequence, kvHead);
  product.loadColumns(keys, keysFrom(k, sequence, kvHead, firstToken, end),
                      fetched);
}

SmallVector<Expr> LogitTile::fetchKeys(Expr sequence, Expr kvHead,
                                       Expr firstToken, Expr end) {
  return product.fetchColumns(keys,
                              keysFrom(k, sequence, kvHead, firstToken, end));
}

std::pair<Expr, Expr> LogitTile::queryOf(Expr row) {
  Expr member = row % paddedGroup;
  if (paddedGroup != k.shape.group)
    member = member.min(k.index(k.shape.group - 1));
  return {kvHead * k.shape.group + member, row / paddedGroup};
}

Expr LogitTile::givenRow(StringRef rows, Expr query) const {
  Expr row = k.arg(rows) - queries + query;
  return queriesMissing ? row.max(k.index(0)) : row;
}

SmallVector<Expr> LogitTile::rowAddress(Expr row) {
  auto [head, query] = queryOf(row);
  return {sequence, head, givenRow("q_rows", query)};
}

RowSource LogitTile::rowSource() {
  return {q, [this](Expr row) { return rowAddress(row); },
          queries * paddedGroup, queriesMissing ? 0 : paddedGroup,
          k.arg("q_row")};
}

void LogitTile::compute(Expr step, Shift shift) {
  Expr first = step * rows, last = queries * paddedGroup - 1;
  auto rowOf = [&](Expr row) { return (first + row).min(last); };
  auto shiftOf = [&](Expr row) { return shift(rowOf(row)); };
  store(
      q, [&](Expr row) { return rowAddress(rowOf(row)); },
      shift ? Shift(shiftOf) : Shift(), 0);
  k.syncWarp();
}

void LogitTile::computeSteps(
    int64_t steps, const Buffer &memory,
    llvm::function_ref<SmallVector<Expr>(int64_t, Expr)> address,
    StepShift shift) {
  for (int64_t step = 0; step < steps; ++step) {
    auto ofStep = [&](Expr row) { return shift(step, row); };
    store(
        memory, [&](Expr row) { return address(step, row); },
        shift ? Shift(ofStep) : Shift(), step * rows);
  }
  k.syncWarp();
}

void LogitTile::store(const Buffer &memory, WarpProduct::Address address,
                      Shift shift, int64_t first) {
  // A lane has several products of a row, with one shift.
  llvm::SmallDenseMap<int, Expr> shifts;
  product.multiply(memory, address, [&](const WarpProduct::Product &p) {
    Expr value = p.value;
    if (shift) {
      Expr &known = shifts[p.rowSlot];
      if (!known.valid())
        known = shift(p.row) * k.f32(-1);
      value = k.exp2(value.multiplyAdd(scale, known));
    } else if (!storesProducts) {
      value = value * scale;
    }
    k.store(value, tile, {k.warp(), p.row + first, p.column});
  });
}

Expr LogitTile::at(Expr row, Expr column) {
  return k.load(tile, {k.warp(), row, column});
}
