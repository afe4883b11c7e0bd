//===- SegmentChannels.cpp - vectors set against a segment, per channel ---===//

#include "codegen/kernels/SegmentChannels.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

SmallVector<ReduceKind> kvc::reductionsOf(SegmentKind kind) {
  switch (kind) {
  case SegmentKind::Max:
    return {ReduceKind::Max};
  case SegmentKind::Min:
    return {ReduceKind::Min};
  case SegmentKind::Sum:
  case SegmentKind::Mean:
    return {ReduceKind::Sum};
  case SegmentKind::MinMax:
    return {ReduceKind::Min, ReduceKind::Max};
  case SegmentKind::Softmax:
    return {ReduceKind::Max, ReduceKind::Sum};
  case SegmentKind::Rank:
    return {};
  }
  llvm_unreachable("all kinds are listed");
}

/// What is known of a range: each channel is divided by once, each element is
/// multiplied with. Of a range far below 1 the inverse may be no number; so it is made
/// larger first, with all that is divided by it, by a power of two.
enum RangeNumber { Scale, Shift, Inverse, rangeNumbers };

static int64_t numbersOf(SegmentKind kind) {
  return kind == SegmentKind::MinMax ? rangeNumbers : 1;
}

static int64_t membersOf(SegmentOp op, const Shape &shape) {
  return headsOf(op.getType()) == Axis::QueryHeads ? shape.group : 1;
}

SegmentChannels::SegmentChannels(KernelBuilder &k, LaneWalk &walk,
                                 ArrayRef<SegmentOp> ops)
    : k(k), walk(walk) {
  int64_t d = k.shape.headDim;
  size_t most = 0;
  for (SegmentOp op : ops) {
    int64_t members = membersOf(op, k.shape);
    numbers[op] = walk.rows.shared(numbersOf(op.getKind()) * members, members);
    most = std::max(most, reductionsOf(op.getKind()).size());
  }
  if (most)
    parts = k.shared(k.b.getF32Type(), int64_t(most) * walk.warps * d,
                     {k.index(walk.warps * d), k.index(d)});
}

void SegmentChannels::run(SegmentOp op, const RowBlock &tokens,
                          const LaneNeeds &needs) {
  SmallVector<ReduceKind> kinds = reductionsOf(op.getKind());
  int64_t members = membersOf(op, k.shape);
  for (int64_t member = 0; member < members; ++member) {
    walk.reduceVectors(
        LaneHead{tokens.s, tokens.head, tokens.leaf}, tokens.begin, tokens.end,
        kinds, needs, 8, parts, [&](const LaneToken &token) {
          return token.channels(op.getValue(), members > 1 ? int(member) : -1);
        });
    k.loop(k.thread(), k.shape.headDim, tokens.block.threads,
           [&](Expr channel) { storeChannel(op, tokens, member, channel); });
  }
  k.barrier(); // the block may read all channels
}

/// Of a channel, what against() reads.
void SegmentChannels::storeChannel(SegmentOp op, const RowBlock &tokens,
                                   int64_t member, Expr channel) {
  Values results;
  for (auto [n, kind] : llvm::enumerate(reductionsOf(op.getKind())))
    results.push_back(walk.ofWarps(kind, parts, int64_t(n), channel));
  auto put = [&](int64_t number, Expr value) {
    k.store(value, numbers[op], {k.index(number), k.index(member), channel});
  };
  if (op.getKind() == SegmentKind::Mean)
    return put(0, results[0] / tokens.count());
  if (op.getKind() != SegmentKind::MinMax)
    return put(0, results[0]);
  Expr least = results[0], range = results[1] - least;
  Expr divisor = (range == k.f32(0)).select(k.f32(1), range);
  Expr scale = (divisor < k.f32(0x1p-64)).select(k.f32(0x1p64), k.f32(1));
  put(Scale, scale);
  put(Shift, k.f32(0) - least * scale);
  put(Inverse, k.f32(1) / (divisor * scale));
}

Expr SegmentChannels::against(SegmentOp op, const Point &point,
                              llvm::function_ref<Expr()> own) const {
  auto number = [&](int64_t n) {
    return k.load(
        numbers.lookup(op),
        {k.index(n), k.index(std::max(point.member, 0)), point.channel});
  };
  if (op.getKind() != SegmentKind::MinMax)
    return number(0);
  return own().multiplyAdd(number(Scale), number(Shift)) * number(Inverse);
}
