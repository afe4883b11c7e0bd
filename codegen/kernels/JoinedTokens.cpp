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
          .toIndex()
          .max(k.index(0))
          .min(capacity);
}

Expr JoinedTokens::ownerOf(Expr entry) {
  return ofMerged() ? tokenAt(entry) : k.load(owners, {sequence, head, entry});
}

Expr JoinedTokens::tokenOf(Expr entry) {
  return ofMerged() ? entry : tokenAt(entry).toIndex();
}

Expr JoinedTokens::hasNone(Expr row, Expr base) {
  Expr any, first = base + k.lane();
  for (int64_t i = 0; i < together; ++i) {
    Expr mine = ownerOf(first + i * warpSize) == row.toI32();
    any = any.valid() ? any | mine : mine;
  }
  return k.ballot(any) == k.i32(0);
}

/// Calls body(i, carried) for each bit i that is set, the lowest first.
static Values overBits(KernelBuilder &k, Expr bits, ArrayRef<Expr> carried,
                       llvm::function_ref<Values(Expr, ArrayRef<Expr>)> body) {
  Values start(carried);
  start.push_back(bits);
  Values result = k.loop(0, k.popcount(bits).toIndex(), 1, start,
                         [&](Expr, ArrayRef<Expr> before) {
                           Expr left = before.back();
                           Expr lowest =
                               k.popcount((left - 1) & (left ^ k.i32(-1)));
                           Values next = body(lowest, before.drop_back());
                           next.push_back(left & (left - 1));
                           return next;
                         });
  result.pop_back();
  return result;
}

Values JoinedTokens::over(
    Expr row, Values start,
    llvm::function_ref<Values(Expr, Expr, ArrayRef<Expr>)> body) {
  constexpr int64_t group = together * warpSize;
  auto oneByOne = [&](Expr from, Expr to, ArrayRef<Expr> carried) {
    return k.loop(from, to, warpSize, carried,
                  [&](Expr base, ArrayRef<Expr> before) {
                    Expr entry = base + k.lane();
                    Expr mine = ownerOf(entry.min(count - 1)) == row.toI32();
                    return overBits(k, k.ballot(mine & (entry < count)), before,
                                    [&](Expr bit, ArrayRef<Expr> inner) {
                                      Expr at = base + bit.toIndex();
                                      return body(at, tokenOf(at), inner);
                                    });
                  });
  };
  return k.loop(0, count, group, start, [&](Expr base, ArrayRef<Expr> carried) {
    Expr end = base + group;
    Expr none = k.choose(
        end <= count, [&] { return Values{hasNone(row, base)}; },
        [&] { return Values{k.boolean(false)}; })[0];
    return k.choose(
        none, [&] { return Values(carried); },
        [&] { return oneByOne(base, end.min(count), carried); });
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
