//===- Columns.cpp - what a column's formula reads -----------------------===//

#include "codegen/kernels/Columns.h"

using namespace mlir;
using namespace kvc;

int64_t ColumnsBuilder::windowOf(ReduceOp reduce) {
  auto type = cast<RankedTensorType>(reduce.getValue().getType());
  return type.isDynamicDim(1) ? 0 : type.getDimSize(1);
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
  return std::nullopt;
}

Expr ColumnsBuilder::guarded(KernelBuilder &k, Expr query, int64_t window,
                             bool partial, Expr old, Expr updated) {
  if (isSmaller(window))
    updated = (query >= queries - extentOf(k, window)).select(updated, old);
  return partial ? (query < queries).select(updated, old) : updated;
}

Buffer ColumnsBuilder::lseBuffer(KernelBuilder &k) {
  return k.buffer("lse", {k.arg("lse_batch"), k.arg("lse_head")});
}

SmallVector<Expr> ColumnsBuilder::lseAddress(const LogitTile &tile,
                                             const SequenceScalars &s,
                                             Expr head, Expr query) {
  return {s.sequence, head, tile.givenRow("lse_rows", query)};
}

Expr ColumnsBuilder::logSumExp(KernelBuilder &k, const LogitTile &tile,
                               const SequenceScalars &s, Expr head,
                               Expr query) {
  return k.load(lseBuffer(k), lseAddress(tile, s, head, query)) *
         k.arg("lse_scale");
}

Expr ColumnsBuilder::weight(KernelBuilder &k, LogitTile &tile,
                            const SequenceScalars &s, const Point &p,
                            AttentionOp op, Expr query, int64_t local) {
  // As where products stay in registers, to the last bit: the policy has one value.
  Expr logit =
      tile.at(k.index(local * tile.paddedGroup + p.member), columnOf(k, p));
  if (op.getLogits())
    return finishLogit(k, s, query,
                       logit * (tile.logitScale() * k.f32(logitsInBase2)));
  Expr row = query.min(queries - 1);
  if (!storesShifted())
    logit = logit.multiplyAdd(
        tile.logitScale(),
        logSumExp(k, tile, s, headIndex(k, Axis::QueryHeads, p), row) *
            k.f32(-1));
  // For all queries and members: the lane's token is one, and there.
  HeadRows rows(k, s.sequence, p.kvHead, s.length);
  Expr seen = sees(s, row, rows.positionOnce(p.token));
  return finishWeight(k, op, seen.select(k.exp2(logit), k.f32(0)));
}

Expr ColumnsBuilder::sees(const SequenceScalars &s, Expr query,
                          Expr position) const {
  return (position - (s.length - queries)).toI32() <= query.toI32();
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
