//===- TokenReductions.cpp - what is reduced over the tokens of a row -----===//
//
// kvc.reduce tokens and kvc.select_heads: numbers that one block makes of a whole
// row of tokens, all barriers inside. kvc.count_mass is in CountMass.cpp, the
// log-sum-exp of attention rows in Statistics.cpp.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/TokenReductions.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

/// Of what is one for all heads, in a cache of rows: over the rows of all of them.
/// Several may have a token's, so that only the largest or smallest can be told.
static Expr statisticOfAll(RowBlock &r, ReduceOp reduce) {
  KernelBuilder &k = r.k;
  ReduceKind kind = reduce.getKind();
  auto yield = cast<YieldOp>(reduce->getBlock()->getTerminator());
  Expr mine = k.fold(
      0, k.arg("kv_heads"), 1, reductionStart(k, kind),
      [&](Expr head, Expr acc) {
        SequenceScalars s = narrowToHead(k, r.s, head, yield);
        return k.stream(
            k.thread(), s.past, RowBlock::threads, {acc},
            [&](Expr token) {
              PointEval eval(k, s, r.leaf, Point{head, -1, {}, token});
              return RowBlock::Values{eval(reduce.getValue())};
            },
            [&](Expr, ArrayRef<Expr> made, ArrayRef<Expr> sum) {
              return RowBlock::Values{reductionStep(kind, sum[0], made[0])};
            })[0];
      });
  return r.block.reduce(kind, mine);
}

/// The standard deviation in one walk. A thread adds up how far its values are from its
/// first one, which is one of them: what these sums lose to rounding is less than the
/// number of its values times that of a second walk. What threads have is combined by
/// their means.
static Expr deviation(RowBlock &r, llvm::function_ref<Expr(Expr)> value) {
  using Values = KernelBuilder::Values;
  KernelBuilder &k = r.k;
  Expr first = r.begin + k.thread(), zero = k.f32(0);
  Expr some = first < r.end;
  Expr pivot = k.choose(
      some, [&] { return Values{value(first)}; },
      [&] { return Values{zero}; })[0];
  Values sums = k.stream(
      first, r.end, RowBlock::threads, {zero, zero},
      [&](Expr token) { return Values{value(token)}; },
      [&](Expr, ArrayRef<Expr> made, ArrayRef<Expr> before) {
        Expr away = made[0] - pivot;
        return Values{before[0] + away, away.multiplyAdd(away, before[1])};
      },
      r.together);
  Expr last = r.end - first + (RowBlock::threads - 1);
  Expr count = (last.max(k.index(0)) / RowBlock::threads).toFloat();
  Expr mean = sums[0] / count.max(k.f32(1));
  // Of squares that are rounded less may be left than nothing.
  Expr squares = (sums[1] - sums[0] * mean).max(zero);
  mean = pivot + mean;
  Expr ofAll = r.block.reduce(ReduceKind::Sum, count * mean) / r.count();
  Expr away = mean - ofAll;
  Expr total = r.block.reduce(ReduceKind::Sum,
                              (count * away).multiplyAdd(away, squares));
  return k.sqrt(total / r.count());
}

Expr kvc::tokenStatistic(RowBlock &r, ReduceOp reduce, int member) {
  if (r.k.shape.hasRows() &&
      headsOf(reduce.getValue().getType()) == Axis::OneHead)
    return statisticOfAll(r, reduce);
  if (reduce.getKind() == ReduceKind::Std)
    return deviation(
        r, [&](Expr token) { return r.at(token)(reduce.getValue(), member); });
  return reduceAll(r.k, reduce.getKind(), r.count(),
                   [&](ReduceKind kind, llvm::function_ref<Expr(Expr)> value) {
                     return r.overTokens(kind, [&](Expr token) {
                       return value(r.at(token)(reduce.getValue(), member));
                     });
                   });
}

/// Thread = channel, or several runs of items per channel, whose results are
/// combined in order.
static Expr overChannelItems(RowBlock &r, ReduceKind kind, Expr begin, Expr end,
                             const Buffer &channelRuns,
                             llvm::function_ref<Expr(Expr, Expr)> value) {
  using Values = KernelBuilder::Values;
  KernelBuilder &k = r.k;
  int64_t d = k.shape.headDim;
  int64_t runs = std::max<int64_t>(1, RowBlock::threads / d);
  Expr channel = k.thread() % d, runIndex = k.thread() / d;
  Expr safe = runIndex.min(k.index(runs - 1)); // threads that are left over
  Expr mine = k.stream(
      begin + safe, end, runs, {reductionStart(k, kind)},
      [&](Expr item) { return Values{value(item, channel)}; },
      [&](Expr, ArrayRef<Expr> made, ArrayRef<Expr> sum) {
        return Values{reductionStep(kind, sum[0], made[0])};
      },
      r.together)[0];
  k.barrier(); // earlier results have been read
  k.store(mine, channelRuns, {k.thread()});
  k.barrier();
  return k.fold(0, runs, 1, reductionStart(k, kind), [&](Expr run, Expr acc) {
    Expr part = k.load(channelRuns, {run * d + channel});
    return reductionStep(kind, acc, part);
  });
}

/// Writes a channel's result, which all its threads have.
static void storeChannel(RowBlock &r, Value result, Expr value) {
  KernelBuilder &k = r.k;
  Buffer memory = r.outputOf(result);
  k.when(k.thread() < k.shape.headDim,
         [&] { k.store(value, memory, {r.s.sequence, r.head, k.thread()}); });
}

void kvc::combineParts(RowBlock &r, CombinePartsOp op, const std::string &input,
                       const Buffer &channelRuns) {
  KernelBuilder &k = r.k;
  Buffer parts = partsBuffer(k, input);
  Expr splits = (r.end + (splitTokens - 1)) / splitTokens;
  Expr total = overChannelItems(
      r, op.getKind(), k.index(0), splits, channelRuns,
      [&](Expr split, Expr channel) {
        return k.load(parts, {r.s.sequence, r.head, split, channel});
      });
  storeChannel(r, op.getResult(), reductionEnd(op.getKind(), total, r.count()));
}

void kvc::channelStatistic(RowBlock &r, ReduceOp reduce,
                           const Buffer &channelRuns) {
  Expr total =
      reduceAll(r.k, reduce.getKind(), r.count(),
                [&](ReduceKind kind, llvm::function_ref<Expr(Expr)> value) {
                  return overChannelItems(
                      r, kind, r.begin, r.end, channelRuns,
                      [&](Expr token, Expr channel) {
                        return value(r.at(token, channel)(reduce.getValue()));
                      });
                });
  storeChannel(r, reduce.getResult(), total);
}

/// Whether `theirs`, of a head in front of the own one or behind it, comes before `mine`.
static Expr comesBefore(SelectHeadsOp op, Expr theirs, Expr mine,
                        Expr isInFront) {
  Expr better = op.getEnd() == End::Lowest ? theirs < mine : theirs > mine;
  return better | ((theirs == mine) & isInFront);
}

static Expr isSelected(KernelBuilder &k, Expr count, Expr heads, Expr mine,
                       Expr before) {
  Expr number = mine.isNaN() == k.boolean(false);
  return (count >= heads) | (number & (before < count));
}

/// Whether the block's head is one of the selected: how many come before it?
Expr kvc::isSelectedHead(RowBlock &r, SelectHeadsOp op) {
  KernelBuilder &k = r.k;
  Expr head = r.head;
  auto value = [&](Expr kvHead) {
    PointEval eval(k, r.s, r.leaf, Point{kvHead, -1, {}, k.index(0)});
    return eval(op.getValue());
  };
  Expr mine = value(head), heads = k.arg("kv_heads");
  Expr count = evalScalar(k, r.s, op.getCount());
  using Values = RowBlock::Values;
  Expr before = k.stream(
      k.index(0), heads, 1, {k.index(0)},
      [&](Expr other) { return Values{value(other)}; },
      [&](Expr other, ArrayRef<Expr> theirs, ArrayRef<Expr> count) {
        Expr comes = comesBefore(op, theirs[0], mine, other < head);
        return Values{comes.select(count[0] + 1, count[0])};
      },
      /*together=*/8)[0];
  return isSelected(k, count, heads, mine, before);
}

Expr kvc::isSelectedHead(RowBlock &r, SelectHeadsOp op,
                         llvm::function_ref<Expr(Expr)> byWarp) {
  KernelBuilder &k = r.k;
  using Values = RowBlock::Values;
  constexpr int64_t warps = RowBlock::threads / warpSize;
  static_assert(warps <= warpSize);
  Expr heads = k.arg("kv_heads"), count = evalScalar(k, r.s, op.getCount());
  Buffer found = k.shared(k.b.getF32Type(), warps);
  // As many heads at a time as there are warps, the own one among the first.
  Expr rounds = (heads + (warps - 1)) / warps, own = r.head / warps;
  Values all = k.loop(
      0, rounds, 1, {k.f32(0), k.index(0)},
      [&](Expr turn, ArrayRef<Expr> carried) {
        Expr first = (own + turn) % rounds * warps, head = first + k.warp();
        k.when(head < heads, [&] {
          // What is known of a head is read where its number is, in front of this.
          Expr value = byWarp(head.min(heads - 1));
          k.when(k.lane() == 0, [&] { k.store(value, found, {k.warp()}); });
        });
        k.barrier();
        Expr mine =
            (turn == 0).select(k.load(found, {r.head % warps}), carried[0]);
        Expr slot = k.lane().min(k.index(warps - 1)), other = first + k.lane();
        Expr comes =
            (k.lane() < warps) & (other < heads) &
            comesBefore(op, k.load(found, {slot}), mine, other < r.head);
        Expr before = carried[1] + k.popcount(k.ballot(comes)).toIndex();
        k.barrier(); // what was found has been read
        return Values{mine, before};
      });
  return isSelected(k, count, heads, all[0], all[1]);
}
