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
  return isa<DeviationPartOp>(op) ? ReduceKind::Mean : ReduceKind::Max;
}

TokenParts::TokenParts(Operation *op)
    : op(op), isExpSum(isa<ExpSumPartOp, CombineExpSumsOp>(op)),
      isDeviation(isa<DeviationPartOp>(op)), kind(kindOf(op)) {}

bool kvc::isOverAllHeads(ReduceOp reduce) {
  AxisList axes = axesOf(reduce.getValue().getType());
  return reduce.getAxis() == ReduceAxis::Heads &&
         axes.front() != Axis::OneHead && axes[1] != Axis::Channel;
}

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

Expr kvc::squareFrom(Expr x, Expr mean, Expr count, Expr before) {
  Expr away = x - mean;
  return (count * away).multiplyAdd(away, before);
}

/// One over a number of tokens, of which there may be none. A division in a loop over
/// heads takes more; this is off by a few roundings, as a mean is anyway, and exact of a
/// power of two.
static Expr oneOver(KernelBuilder &k, Expr count) {
  return k.exp2(k.log2(count.max(k.f32(1))) * k.f32(-1));
}

static Values deviationOfLanes(KernelBuilder &k, ArrayRef<Expr> values,
                               ArrayRef<Expr> exist) {
  Expr number = k.i32(0);
  for (Expr there : exist)
    number = number + k.popcount(k.ballot(there));
  Expr count = number.toFloat();
  Expr sum = reduceLanes(k, ReduceKind::Sum, fold(k, ReduceKind::Sum, values));
  Expr mean = sum * oneOver(k, count), squares = k.f32(0);
  for (auto [x, there] : llvm::zip(values, exist))
    squares = there.select(squareFrom(x, mean, k.f32(1), squares), squares);
  return {count, mean, reduceLanes(k, ReduceKind::Sum, squares)};
}

static Values joinedDeviation(KernelBuilder &k, ArrayRef<Values> parts) {
  Expr count = k.f32(0), sum = k.f32(0), squares = k.f32(0);
  for (const Values &part : parts) {
    count = count + part[0];
    sum = part[0].multiplyAdd(part[1], sum);
  }
  Expr mean = sum * oneOver(k, count);
  for (const Values &part : parts)
    squares = squares + squareFrom(part[1], mean, part[0], part[2]);
  return {count, mean, squares};
}

Values TokenParts::ofLanes(KernelBuilder &k, ArrayRef<Expr> values,
                           ArrayRef<Expr> exist) const {
  if (isDeviation)
    return deviationOfLanes(k, values, exist);
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
  if (parts.size() == 1)
    return parts[0];
  if (isDeviation)
    return joinedDeviation(k, parts);
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

Values kvc::reduceParts(KernelBuilder &k, ReduceKind kind, Expr count,
                        int64_t together, int64_t numbers,
                        llvm::function_ref<Values(Expr)> make) {
  // Behind the last part stands that once more, and counts for nothing: a round of loads
  // is in flight, however few parts there are.
  Expr start = reductionStart(k, kind);
  Values mine = k.streamOver(
      k.lane(), count, warpSize, Values(size_t(numbers), start),
      [&](Expr i) { return make(i.min(count - 1)); },
      [&](Expr i, ArrayRef<Expr> made, ArrayRef<Expr> sums) {
        Values all;
        for (auto [number, sum] : llvm::zip(made, sums))
          all.push_back(
              reductionStep(kind, sum, (i < count).select(number, start)));
        return all;
      },
      together);
  for (Expr &number : mine)
    number = reduceLanes(k, kind, number);
  return mine;
}

Values TokenParts::ofAll(KernelBuilder &k, Expr count, int64_t together,
                         llvm::function_ref<Expr(Expr, int64_t)> part) const {
  auto walk = [&](ReduceKind kind, llvm::function_ref<Expr(Expr)> make) {
    return reduceParts(k, kind, count, together, 1,
                       [&](Expr i) { return Values{make(i)}; })[0];
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

SmallVector<Values> kvc::byMembers(KernelBuilder &k, int64_t members,
                                   int64_t numbers,
                                   llvm::function_ref<Values(Expr)> make) {
  int64_t warps = RowBlock::threads / warpSize;
  Buffer found =
      k.shared(k.b.getF32Type(), members * numbers, {k.index(numbers)});
  k.loop(k.warp(), members, warps, [&](Expr member) {
    Values all = make(member);
    k.when(k.lane() == 0, [&] {
      for (auto [number, value] : llvm::enumerate(all))
        k.store(value, found, {member, k.index(int64_t(number))});
    });
  });
  k.barrier();
  SmallVector<Values> result(members);
  for (int64_t j = 0; j < members; ++j)
    for (int64_t number = 0; number < numbers; ++number)
      result[j].push_back(k.load(found, {k.index(j), k.index(number)}));
  return result;
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
  SmallVector<Values> result =
      byMembers(k, members, parts.numbers(), [&](Expr member) {
        return parts.ofAll(k, count, together, [&](Expr i, int64_t number) {
          return k.load(memory[number],
                        {r.s.sequence, r.head * members + member, i});
        });
      });
  if (!parts.isExpSum)
    for (Values &numbers : result)
      numbers[0] = reductionEnd(parts.kind, numbers[0], r.s.past.toFloat());
  return result;
}
