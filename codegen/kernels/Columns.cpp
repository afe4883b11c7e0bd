//===- Columns.cpp - what all files of the columns kernel call ------------===//
//
// How the kernel is laid out, and what each of its files has, is in Columns.h.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"

using namespace mlir;
using namespace kvc;

int64_t ColumnsBuilder::windowOf(ReduceOp reduce) {
  auto type = cast<RankedTensorType>(reduce.getValue().getType());
  return type.isDynamicDim(1) ? 0 : type.getDimSize(1);
}

Expr ColumnsBuilder::inPast(KernelBuilder &k, const SequenceScalars &s,
                            Expr token) const {
  // The last one's number would be held in a register all the way from where it bounds what
  // is loaded, and products of warpgroups with all of a block's values have none to spare.
  return panels && computesNorms() ? (token < s.past).select(token, k.index(0))
                                   : token.min(s.past - 1);
}

Expr ColumnsBuilder::columnOf(KernelBuilder &k, const Point &p) const {
  return halo || hasRow.valid()
             ? clamp(k, p.token - tileStart, k.index(warpSize))
             : k.lane();
}

void ColumnsBuilder::forTiles(
    KernelBuilder &k, const SequenceScalars &s, const Point &point,
    llvm::function_ref<void(int64_t, const Point &)> body) {
  Expr first = tileStart;
  for (int64_t number = 0; number < tiles; ++number) {
    Point at = point;
    if (number) {
      tileStart = first + number * warpSize;
      at.token = inPast(k, s, tileStart + k.lane());
    }
    finished = finishedTiles[number];
    body(number, at);
  }
  tileStart = first;
}

void ColumnsBuilder::forMembers(KernelBuilder &k, Value value,
                                llvm::function_ref<void(int)> body) {
  if (headsOf(value.getType()) != Axis::QueryHeads)
    return body(-1);
  for (int j = 0; j < k.shape.group; ++j)
    body(j);
}

std::optional<Expr> ColumnsBuilder::readColumn(KernelBuilder &k,
                                               const SequenceScalars &s,
                                               Value value, const Point &p) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return readInput(k, s, site, value, p);
  if (auto it = finished.find({op, p.member}); it != finished.end())
    return it->second;
  return readChannels(value, p);
}

Expr ColumnsBuilder::guarded(KernelBuilder &k, Expr query, int64_t window,
                             bool partial, Expr old, Expr updated) {
  if (isSmaller(window))
    updated = (query >= queries - extentOf(k, window)).select(updated, old);
  return partial ? (query < queries).select(updated, old) : updated;
}

Expr ColumnsBuilder::sees(const SequenceScalars &s, Expr query,
                          Expr position) const {
  return (position - (s.length - queries)).toI32() <= query.toI32();
}

int64_t ColumnsBuilder::smallerWindow(ArrayRef<ReduceOp> reduces) const {
  int64_t largest = 0;
  for (ReduceOp reduce : reduces)
    if (int64_t window = windowOf(reduce); isSmaller(window))
      largest = std::max(largest, window);
  return largest;
}

Expr ColumnsBuilder::newestToken() const {
  return tileStart + (tiles * warpSize - 1);
}

Expr ColumnsBuilder::newestPosition(KernelBuilder &k, const SequenceScalars &s,
                                    const Point &point) const {
  return k.shape.hasRows()
             ? positionOf(k, s, point.kvHead, clamp(k, newestToken(), s.past))
             : newestToken();
}

Expr ColumnsBuilder::allSee(const LogitTile &tile, const SequenceScalars &s,
                            Expr newest, int64_t smaller, Expr first,
                            Expr end) const {
  Expr query = first / tile.paddedGroup, last = end / tile.paddedGroup;
  return (newest <= s.length - queries + query) &
         (last <= (smaller ? queries - smaller : queries));
}

Expr ColumnsBuilder::finishLogit(KernelBuilder &k, const SequenceScalars &s,
                                 Expr query, Expr logit) {
  if (readsAll)
    return logit;
  return (s.length - queries + query >= 0).select(logit, k.f32(0));
}

Expr ColumnsBuilder::finishWeight(KernelBuilder &k, AttentionOp op,
                                  Expr value) {
  return op.getRounded() ? k.narrow(value).widen() : value;
}

void ColumnsBuilder::storeOutputs(KernelBuilder &k, const SequenceScalars &s,
                                  PointEval &eval, const Point &point,
                                  Expr exists, bool oneHead) {
  for (auto [value, name] :
       llvm::zip(yield.getValues(), outputBuffers(kernel))) {
    if (needsOf(value.getDefiningOp()).writesResults)
      continue;
    Axis heads = headsOf(value.getType());
    if (walksHeads() && (heads == Axis::OneHead) != oneHead)
      continue;
    Buffer memory = scratchBuffer(k, name, value.getType());
    forMembers(k, value, [&](int j) {
      Point p = point;
      p.member = j;
      Expr result = eval(value, j);
      Expr row = headIndex(k, heads, p);
      // One row for all heads without a walk: every block has the same value;
      // the first head's writes it, or every head's what it has rows of.
      Expr mine = heads == Axis::OneHead && !oneHead && !k.shape.hasRows()
                      ? exists & (point.kvHead == 0)
                      : exists;
      Expr place = tokenIndex(k, s, heads, point);
      k.when(mine, [&] { k.store(result, memory, {s.sequence, row, place}); });
    });
  }
}

void kvc::buildColumns(KernelOp kernel, const KernelSite &site) {
  ColumnsBuilder(kernel, site).build();
}
