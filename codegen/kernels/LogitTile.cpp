//===- LogitTile.cpp - a warp's tile of Q.K^T -----------------------------===//

#include "codegen/kernels/LogitTile.h"

#include "codegen/SIMT.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

void LogitTile::addArgs(std::vector<std::string> &args) {
  for (const char *arg : {"q", "q_rows", "q_batch", "q_head", "q_row", "k",
                          "k_batch", "k_head", "k_token", "logit_scale"})
    args.push_back(arg);
}

LogitTile::LogitTile(KernelBuilder &k, int64_t warps)
    : paddedGroup(llvm::PowerOf2Ceil(k.shape.group)), k(k) {
  tile = k.shared(k.b.getF32Type(), warps * rows * pitch,
                  {k.index(rows * pitch), k.index(pitch)});
  q = k.buffer("q", {k.arg("q_batch"), k.arg("q_head"), k.arg("q_row")});
  keys = k.buffer("k", {k.arg("k_batch"), k.arg("k_head"), k.arg("k_token")});
  scale = k.arg("logit_scale");
}

void LogitTile::setQueries(Expr queries) { this->queries = queries; }

Expr LogitTile::steps() const {
  return (queries + (queriesPerStep() - 1)) / queriesPerStep();
}

SmallVector<std::pair<int64_t, int64_t>> LogitTile::chunks() const {
  // Each of the four lanes of a quad takes `width` elements in a row. The order
  // of the products within a dot product is free, so queries and keys only have
  // to agree on it, and both are read 16 bytes at a time where possible.
  SmallVector<std::pair<int64_t, int64_t>> result;
  int64_t dim = 0;
  for (; dim + 32 <= k.shape.headDim; dim += 32)
    result.push_back({dim, 8});
  if (dim < k.shape.headDim)
    result.push_back({dim, 4});
  return result;
}

void LogitTile::loadKeys(Expr sequence, Expr kvHead, Expr firstToken,
                         Expr end) {
  this->sequence = sequence;
  this->kvHead = kvHead;
  this->firstToken = firstToken;
  lastToken = end - 1;
  keyFragments.clear();
  if (!k.shape.usesTensorCores())
    return;
  Expr lane = k.lane(), quad = lane % 4;
  for (int64_t block = 0; block < tokens / 8; ++block) {
    Expr token = (firstToken + (lane / 4 + block * 8)).min(lastToken);
    SmallVector<Expr> registers;
    for (auto [dim, width] : chunks())
      registers.append(k.registers(k.loadVector(
          keys, {sequence, kvHead, token, quad * width + dim}, width)));
    keyFragments.push_back(registers);
  }
}

std::pair<Expr, Expr> LogitTile::queryOf(Expr step, Expr row) {
  Expr member = (row % paddedGroup).min(k.index(k.shape.group - 1));
  Expr query =
      (step * queriesPerStep() + row / paddedGroup).min(queries - 1);
  return {kvHead * k.shape.group + member, k.arg("q_rows") - queries + query};
}

void LogitTile::compute(Expr step) {
  if (k.shape.usesTensorCores())
    computeTensorCores(step);
  else
    computeMultiplyAdd(step);
  k.syncWarp();
}

void LogitTile::computeTensorCores(Expr step) {
  Expr lane = k.lane(), quad = lane % 4, low = lane / 4;
  SmallVector<SmallVector<Expr>, 2> queryRegisters;
  for (int64_t half : {0, 8}) {
    auto [head, row] = queryOf(step, low + half);
    SmallVector<Expr> registers;
    for (auto [dim, width] : chunks())
      registers.append(k.registers(
          k.loadVector(q, {sequence, head, row, quad * width + dim}, width)));
    queryRegisters.push_back(registers);
  }
  // Two registers of each row are one step of 16 products.
  SmallVector<Value> a;
  for (size_t r = 0; r < queryRegisters[0].size(); r += 2)
    a.append({queryRegisters[0][r], queryRegisters[1][r],
              queryRegisters[0][r + 1], queryRegisters[1][r + 1]});
  Type f32 = k.b.getF32Type();
  for (auto [block, fragment] : llvm::enumerate(keyFragments)) {
    SmallVector<Value> bFragment(fragment.begin(), fragment.end());
    Value zero = k.f32(0);
    auto mma = simt::MmaOp::create(k.b, SmallVector<Type>(4, f32), a, bFragment,
                                   zero, zero, zero, zero,
                                   k.shape.elementType(k.b.getContext()));
    for (int64_t r = 0; r < 4; ++r)
      k.store(k.expr(mma.getResult(r)) * scale, tile,
              {k.warp(), low + (r / 2) * 8,
               quad * 2 + (int64_t(block) * 8 + r % 2)});
  }
}

void LogitTile::computeMultiplyAdd(Expr step) {
  // Lane = token; the 16 queries are read at addresses that all lanes share.
  int64_t width = k.shape.vectorWidth();
  Expr token = (firstToken + k.lane()).min(lastToken);
  SmallVector<std::pair<Expr, Expr>> at;
  for (int64_t row = 0; row < rows; ++row)
    at.push_back(queryOf(step, k.index(row)));
  SmallVector<Expr> zeros(rows, k.f32(0));
  auto dots = k.loop(
      k.index(0), k.index(k.shape.headDim), k.index(width), zeros,
      [&](Expr dim, ArrayRef<Expr> carried) {
        Expr key = k.loadVector(keys, {sequence, kvHead, token, dim}, width);
        KernelBuilder::Values sums(carried.begin(), carried.end());
        for (int64_t row = 0; row < rows; ++row) {
          Expr query = k.loadVector(
              q, {sequence, at[row].first, at[row].second, dim}, width);
          for (int64_t e = 0; e < width; ++e)
            sums[row] = k.element(query, e).widen().multiplyAdd(
                k.element(key, e).widen(), sums[row]);
        }
        return sums;
      });
  for (int64_t row = 0; row < rows; ++row)
    k.store(dots[row] * scale, tile, {k.warp(), k.index(row), k.lane()});
}

Expr LogitTile::at(Expr row, Expr column) {
  return k.load(tile, {k.warp(), row, column});
}
