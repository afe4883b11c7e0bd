//===- TokenDeviations.cpp - deviations over tokens, from parts -----------===//

#include "codegen/kernels/TokenDeviations.h"

#include "codegen/kernels/TokenParts.h"

using namespace mlir;
using namespace kvc;

static YieldOp yieldOf(RowBlock &r) {
  return cast<YieldOp>(r.kernel.getBody().front().getTerminator());
}

TokenDeviations::TokenDeviations(RowBlock &row, CombineDeviationsOp op,
                                 ArrayRef<std::string> inputs)
    : r(row), k(row.k), members(row.members(op.getResult())) {
  for (auto [input, value] : llvm::zip(inputs, op->getOperands()))
    memory.push_back(scratchBuffer(k, input, value.getType()));
  auto input = cast<BlockArgument>(op.getCounts());
  auto maker =
      r.kernel.getIns()[input.getArgNumber()].getDefiningOp<KernelOp>();
  overPositions =
      k.shape.hasRows() &&
      llvm::any_of(maker.getBody().getOps<ReduceOp>(), isOverAllHeads);
}

Expr TokenDeviations::ofHead(Expr kvHead, Expr member) const {
  constexpr int64_t tokens = splitTokens / 2, together = 8;
  SequenceScalars s = r.s;
  Expr behind = s.past;
  if (k.shape.hasRows()) {
    SequenceScalars all = openSequence(k, r.s.sequence, yieldOf(r));
    s = narrowToHead(k, all, kvHead, yieldOf(r));
    s.past = s.past.max(k.index(0));
    // Of a head without a past nobody has made any.
    behind = overPositions ? (s.past > 0).select(all.past, k.index(0)) : s.past;
  }
  auto load = [&](int64_t number, Expr i) {
    return k.load(memory[number], {s.sequence, kvHead * members + member, i});
  };
  auto countOf = [&](Expr i) {
    return overPositions ? load(0, i)
                         : (s.past - i * tokens).min(k.index(tokens)).toFloat();
  };
  Expr parts = (behind + (tokens - 1)) / tokens, count = s.past.toFloat();
  using Values = KernelBuilder::Values;
  auto sums = [&](int64_t numbers, llvm::function_ref<Values(Expr)> make) {
    return reduceParts(k, ReduceKind::Sum, parts, together, numbers, make);
  };
  // Squares about the parts' own means are read beside these, not behind them.
  Values first = sums(
      2, [&](Expr i) { return Values{countOf(i) * load(1, i), load(2, i)}; });
  Expr mean = first[0] / count;
  Expr between = sums(1, [&](Expr i) {
    return Values{squareFrom(load(1, i), mean, countOf(i), k.f32(0))};
  })[0];
  return k.sqrt((first[1] + between) / count);
}

SmallVector<Expr> TokenDeviations::ofOwnHead() const {
  return llvm::map_to_vector(
      byMembers(k, members, 1,
                [&](Expr member) {
                  return KernelBuilder::Values{ofHead(r.head, member)};
                }),
      [](const KernelBuilder::Values &numbers) { return numbers[0]; });
}
