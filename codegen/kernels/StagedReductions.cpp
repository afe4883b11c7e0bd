//===- StagedReductions.cpp - reductions over channels, for tokens of a block //

#include "codegen/kernels/StagedReductions.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

StagedReductions::StagedReductions(KernelBuilder &k, LaneWalk &walk,
                                   int64_t most)
    : k(k), walk(walk) {
  if (!most)
    return;
  constexpr int64_t bytes = 8192;
  together = walk.warps * warpSize;
  while (together > warpSize && most * together * 4 > bytes)
    together /= 2;
  memory = k.shared(k.b.getF32Type(), most * together, {k.index(together)});
}

void StagedReductions::run(const RowBlock &row, const LaneNeeds &needs,
                           llvm::function_ref<void(RowBlock &)> body) {
  if (needs.reductions.empty()) {
    RowBlock tokens = row;
    return body(tokens);
  }
  k.loop(row.begin, row.end, together, [&](Expr begin) {
    RowBlock tokens = row;
    tokens.begin = begin;
    tokens.end = (begin + together).min(row.end);
    make(needs, tokens);
    k.barrier();
    first = begin;
    for (auto [place, reduction] : llvm::enumerate(needs.reductions))
      places[{reduction.first, reduction.second}] = int64_t(place);
    body(tokens);
    places.clear();
    k.barrier(); // those of the next tokens take their place
  });
}

void StagedReductions::make(const LaneNeeds &needs, const RowBlock &tokens) {
  walk.walk(
      LaneHead{tokens.s, tokens.head, tokens.leaf}, tokens.begin, tokens.end,
      {}, needs, 4,
      [&](const LaneToken &token) {
        Values values;
        for (auto [op, member] : needs.reductions)
          values.push_back(token.beforeRoot(op, member));
        return values;
      },
      // All lanes of a row have the same numbers, and what does not exist has those
      // of the same warp's last token: they may all write them, without a branch.
      [&](Expr token, Expr, ArrayRef<Expr> values, ArrayRef<Expr>) {
        for (auto [place, value] : llvm::enumerate(values))
          k.store(value, memory,
                  {k.index(int64_t(place)), token - tokens.begin});
        return Values();
      });
}

std::optional<Expr> StagedReductions::find(Value value,
                                           const Point &point) const {
  auto place = places.find({value.getDefiningOp(), point.member});
  if (place == places.end())
    return std::nullopt;
  Expr before = k.load(memory, {k.index(place->second), point.token - first});
  return withRoot(k, value.getDefiningOp(), before);
}
