//===- TokenParts.cpp - numbers that parts of a head's tokens have --------===//

#include "codegen/kernels/TokenParts.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

static ReduceKind kindOf(Operation *op) {
  if (auto part = dyn_cast<ReducePartOp>(op))
    return part.getKind();
  if (auto combine = dyn_cast<CombinePartsOp>(op))
    return combine.getKind();
  return ReduceKind::Max;
}

TokenParts::TokenParts(Operation *op)
    : op(op), isExpSum(isa<ExpSumPartOp, CombineExpSumsOp>(op)),
      kind(kindOf(op)) {}

/// As weights of attention have it: what is summed up is rounded by no policy's op.
static Expr exp(KernelBuilder &k, Expr x) {
  return k.exp2(x * k.f32(1.4426950408889634));
}

static Expr fold(KernelBuilder &k, ReduceKind kind, ArrayRef<Expr> values) {
  Expr sum = values.front();
  for (Expr value : values.drop_front())
    sum = reductionStep(kind, sum, value);
  return sum;
}

/// Where all of a part is -inf, so is its maximum, and others decide: its exponentials
/// are 0.
static Expr shiftOf(KernelBuilder &k, Expr most) {
  Expr lowest = reductionStart(k, ReduceKind::Max);
  return (most == lowest).select(k.f32(0), most);
}

Values TokenParts::ofLanes(KernelBuilder &k, ArrayRef<Expr> values) const {
  Expr first = reduceLanes(k, kind, fold(k, kind, values));
  if (!isExpSum)
    return {first};
  Expr shift = shiftOf(k, first);
  auto exponentials =
      llvm::map_to_vector(values, [&](Expr x) { return exp(k, x - shift); });
  return {first, reduceLanes(k, ReduceKind::Sum,
                             fold(k, ReduceKind::Sum, exponentials))};
}

Values TokenParts::joined(KernelBuilder &k, ArrayRef<Values> parts) const {
  auto firsts =
      llvm::map_to_vector(parts, [](const Values &part) { return part[0]; });
  Expr first = fold(k, kind, firsts);
  if (!isExpSum)
    return {first};
  Expr shift = shiftOf(k, first);
  auto sums = llvm::map_to_vector(parts, [&](const Values &part) {
    return part[1] * exp(k, part[0] - shift);
  });
  return {first, fold(k, ReduceKind::Sum, sums)};
}

Values TokenParts::ofAll(KernelBuilder &k, Expr count, int64_t together,
                         llvm::function_ref<Expr(Expr, int64_t)> part) const {
  // Behind the last part stands that once more, and counts for nothing: a round of loads
  // is in flight, however few parts there are.
  auto walk = [&](ReduceKind kind, llvm::function_ref<Expr(Expr)> make) {
    Expr start = reductionStart(k, kind);
    Expr mine = k.streamOver(
        k.lane(), count, warpSize, {start},
        [&](Expr i) { return Values{make(i.min(count - 1))}; },
        [&](Expr i, ArrayRef<Expr> made, ArrayRef<Expr> sum) {
          Expr value = (i < count).select(made[0], start);
          return Values{reductionStep(kind, sum[0], value)};
        },
        together)[0];
    return reduceLanes(k, kind, mine);
  };
  Expr first = walk(kind, [&](Expr i) { return part(i, 0); });
  if (!isExpSum)
    return {first};
  return {first, walk(ReduceKind::Sum, [&](Expr i) {
            return part(i, 1) * exp(k, part(i, 0) - first);
          })};
}

void kvc::reduceSpan(RowBlock &r, const TokenParts &parts) {
  KernelBuilder &k = r.k;
  int64_t members = r.members(parts.value());
  for (int64_t j = 0; j < members; ++j) {
    auto over = [&](ReduceKind kind, llvm::function_ref<Expr(Expr)> make) {
      return r.overTokens(kind, [&](Expr token) {
        return make(r.at(token)(parts.value(), int(j)));
      });
    };
    Values numbers{over(parts.kind, [](Expr x) { return x; })};
    if (parts.isExpSum) {
      Expr shift = shiftOf(k, numbers[0]);
      numbers.push_back(
          over(ReduceKind::Sum, [&](Expr x) { return exp(k, x - shift); }));
    }
    k.when(k.thread() == 0, [&] {
      for (auto [result, number] : llvm::zip(parts.op->getResults(), numbers))
        k.store(number, r.outputOf(result),
                {r.s.sequence, r.head * members + j, r.span});
    });
  }
}

SmallVector<Values> kvc::combineSpans(RowBlock &r, const TokenParts &parts,
                                      ArrayRef<std::string> inputs) {
  KernelBuilder &k = r.k;
  int64_t members = r.members(parts.op->getResult(0));
  SmallVector<Buffer> memory;
  for (auto [input, value] : llvm::zip(inputs, parts.op->getOperands()))
    memory.push_back(scratchBuffer(k, input, value.getType()));
  // Who made them says how many tokens each is of.
  auto input = cast<BlockArgument>(parts.value());
  auto maker =
      r.kernel.getIns()[input.getArgNumber()].getDefiningOp<KernelOp>();
  bool ofSpans = maker && maker.getKind() == KernelKind::Spans;
  Expr length = ofSpans ? RowBlock::spanLength(k, r.s) : k.index(splitTokens);
  Expr count = (r.s.past + (length - 1)) / length;
  static_assert(RowBlock::mostSpans <= warpSize);
  int64_t together = ofSpans ? 1 : 8;
  // A member has a warp, and the block what all of them find.
  int64_t numbers = parts.numbers(), warps = RowBlock::threads / warpSize;
  Buffer found =
      k.shared(k.b.getF32Type(), members * numbers, {k.index(numbers)});
  k.loop(k.warp(), members, warps, [&](Expr member) {
    Values all = parts.ofAll(k, count, together, [&](Expr i, int64_t number) {
      return k.load(memory[number],
                    {r.s.sequence, r.head * members + member, i});
    });
    k.when(k.lane() == 0, [&] {
      for (auto [number, value] : llvm::enumerate(all))
        k.store(value, found, {member, k.index(int64_t(number))});
    });
  });
  k.barrier();
  SmallVector<Values> result(members);
  for (int64_t j = 0; j < members; ++j)
    for (int64_t number = 0; number < numbers; ++number) {
      Expr value = k.load(found, {k.index(j), k.index(number)});
      result[j].push_back(
          parts.isExpSum ? value
                         : reductionEnd(parts.kind, value, r.s.past.toFloat()));
    }
  return result;
}
