//===- JoinedTokens.cpp ---------------------------------------------------===//

#include "codegen/kernels/JoinedTokens.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

void JoinedTokens::addArgs(const Shape &shape, std::vector<std::string> &args) {
  if (shape.isMerged())
    return;
  for (const char *arg :
       {"member_rows", "member_norms", "member_counts", "member_capacity"})
    addArg(args, arg);
}

JoinedTokens::JoinedTokens(KernelBuilder &k, const SequenceScalars &s,
                           Expr head, std::function<Expr(Expr)> tokenAt)
    : k(k), sequence(s.sequence), head(head), tokenAt(std::move(tokenAt)) {
  if (ofMerged()) {
    count = s.rows;
    return;
  }
  Expr capacity = k.arg("member_capacity");
  SmallVector<Expr> strides{k.arg("kv_heads") * capacity, capacity};
  owners = k.buffer("member_rows", strides);
  norms = k.buffer("member_norms", strides);
  count =
      k.load(k.buffer("member_counts", {k.arg("kv_heads")}), {sequence, head})
          .toIndex();
}

Expr JoinedTokens::ownerOf(Expr entry) {
  return ofMerged() ? tokenAt(entry) : k.load(owners, {sequence, head, entry});
}

Expr JoinedTokens::tokenOf(Expr entry) {
  return ofMerged() ? entry : tokenAt(entry).toIndex();
}

Values JoinedTokens::over(
    Expr row, Values start,
    llvm::function_ref<Values(Expr, Expr, ArrayRef<Expr>)> body) {
  return k.loop(
      0, count, warpSize, start, [&](Expr base, ArrayRef<Expr> carried) {
        Expr entry = (base + k.lane()).min(count - 1);
        Expr mine = ownerOf(entry) == row.toI32();
        Expr bits = k.ballot(mine & (base + k.lane() < count));
        auto keep = [&] { return Values(carried.begin(), carried.end()); };
        return k.choose(bits == 0, keep, [&] {
          return k.loop(
              0, warpSize, 1, carried, [&](Expr lane, ArrayRef<Expr> inner) {
                Expr bit = (bits >> lane.toI32()) & 1;
                return k.choose(
                    bit == 0,
                    [&] { return Values(inner.begin(), inner.end()); },
                    [&] {
                      Expr at = base + lane;
                      return body(at, tokenOf(at), inner);
                    });
              });
        });
      });
}

Expr JoinedTokens::noteNorm(Expr entry, ArrayRef<Expr> key) {
  Expr squares = k.f32(0);
  for (Expr x : key)
    squares = x.multiplyAdd(x, squares);
  Expr norm = k.sqrt(reduceLanes(k, ReduceKind::Sum, squares));
  k.when(k.lane() == 0, [&] { k.store(norm, norms, {sequence, head, entry}); });
  return norm;
}
