//===- HeadShares.cpp - budgets that move between heads of different length ===//

#include "codegen/kernels/HeadShares.h"

#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

HeadShares::HeadShares(KernelBuilder &k, ThreadBlock &block)
    : k(k), block(block) {
  bases = k.shared(k.b.getI32Type(), KVC_MAX_KV_HEADS);
  pasts = k.shared(k.b.getI32Type(), KVC_MAX_KV_HEADS);
}

void HeadShares::open(
    const SequenceScalars &s, YieldOp yield,
    llvm::function_ref<Expr(const SequenceScalars &, Expr)> base) {
  Expr heads = k.arg("kv_heads"), zero = k.index(0);
  k.barrier(); // those of another ranking have been read
  k.loop(k.thread(), heads, block.threads, [&](Expr head) {
    SequenceScalars own = narrowToHead(k, s, head, yield);
    Expr takesPart = own.window < own.budget;
    Expr most = base(own, head).max(zero);
    k.store(takesPart.select(most, zero).toI32(), bases, {head});
    k.store(takesPart.select(own.past, zero).toI32(), pasts, {head});
  });
  k.barrier(); // every head is known
  Values sums =
      k.loop(0, heads, 1, {zero, zero}, [&](Expr head, ArrayRef<Expr> carried) {
        return Values{carried[0] + this->base(head), carried[1] + past(head)};
      });
  allItems = sums[1];
  allTotal = sums[0].min(sums[1]);
}

HeadDivision::HeadDivision(KernelBuilder &k, ThreadBlock &block)
    : k(k), block(block) {
  cut = k.shared(k.b.getI32Type(), KVC_MAX_KV_HEADS);
  floors = k.shared(k.b.getI32Type(), KVC_MAX_KV_HEADS);
  remainders = k.shared(k.b.getI64Type(), KVC_MAX_KV_HEADS);
}

HeadDivision::Open HeadDivision::open(const HeadShares &shares,
                                      llvm::function_ref<Expr(Expr)> value) {
  Expr zero = k.index(0);
  Values sums =
      k.loop(0, k.arg("kv_heads"), 1, {shares.total(), zero, zero},
             [&](Expr head, ArrayRef<Expr> carried) {
               Expr isCut = k.load(cut, {head}) > 0;
               return Values{carried[0] - isCut.select(shares.past(head), zero),
                             carried[1] + isCut.select(zero, value(head)),
                             carried[2] + isCut.select(zero, k.index(1))};
             });
  return {sums[0], sums[1], sums[2]};
}

void HeadDivision::note(Expr head, Expr floor, Expr remainder) {
  k.store(floor.toI32(), floors, {head});
  k.store(k.expr(arith::IndexCastOp::create(k.b, k.b.getI64Type(), remainder)),
          remainders, {head});
}

void HeadDivision::cutAndDivide(const HeadShares &shares,
                                llvm::function_ref<Expr(Expr)> value) {
  Expr heads = k.arg("kv_heads"), thread = k.thread();
  Expr step = k.index(block.threads);
  auto wide = [&](Expr index) {
    return k.expr(
        arith::IndexCastOp::create(k.b, k.b.getIntegerType(128), index));
  };
  // A head gets part * left / by.
  auto partOf = [&](const Open &open, Expr head) {
    return (open.sum == 0).select(k.index(1), value(head));
  };
  auto byOf = [&](const Open &open) {
    return (open.sum == 0).select(open.number, open.sum).max(k.index(1));
  };

  k.loop(thread, heads, step,
         [&](Expr head) { k.store(k.i32(0), cut, {head}); });
  k.barrier(); // none is cut
  // Cutting raises the shares of the others, so what was cut once stays cut.
  k.loop(0, heads, 1, {k.boolean(false)}, [&](Expr, ArrayRef<Expr> carried) {
    return k.choose(
        carried[0], [&] { return Values{carried[0]}; },
        [&] {
          Open now = open(shares, value);
          k.barrier(); // all have read who is cut
          Expr some =
              k.fold(thread, heads, step, k.i32(0), [&](Expr head, Expr acc) {
                Expr dividend = wide(partOf(now, head)) * wide(now.left);
                Expr most = wide(shares.past(head)) * wide(byOf(now));
                Expr over =
                    dividend.above(most) & (k.load(cut, {head}) == k.i32(0));
                k.when(over, [&] { k.store(k.i32(1), cut, {head}); });
                return acc | over.toI32();
              });
          return Values{block.reduce(ReduceKind::Max, some.toFloat()) <=
                        k.f32(0)};
        });
  });
  Open now = open(shares, value);
  // In two digits: a part is below 2^31 * 10^4, the denominator of a fraction, and so is
  // the sum of parts; what is left is below 2^31. No number has more than 62 bits.
  constexpr int64_t digit = int64_t(1) << 16;
  k.loop(thread, heads, step, [&](Expr head) {
    Expr part = partOf(now, head), by = byOf(now);
    Expr high = part * (now.left / digit), first = high / by;
    Expr low = (high - first * by) * digit + part * (now.left % digit);
    Expr second = low / by;
    Expr isCut = k.load(cut, {head}) > 0;
    // Behind every other: a head that is cut gets no more.
    note(head, isCut.select(shares.past(head), first * digit + second),
         isCut.select(k.index(-1), low - second * by));
  });
}

void HeadDivision::divide(const HeadShares &shares,
                          llvm::function_ref<Expr(Expr)> value, int64_t whole,
                          llvm::function_ref<void(Expr, Expr)> store) {
  Expr heads = k.arg("kv_heads"), thread = k.thread();
  Expr step = k.index(block.threads);
  Expr some = k.fold(thread, heads, step, k.i32(0), [&](Expr head, Expr acc) {
    return acc | (value(head) > shares.past(head) * whole).toI32();
  });
  // Mostly none is, and a head gets value / whole: they add up to the total.
  k.choose(
      block.reduce(ReduceKind::Max, some.toFloat()) <= k.f32(0),
      [&] {
        k.loop(thread, heads, step, [&](Expr head) {
          Expr own = value(head), floor = own / whole;
          note(head, floor, own - floor * whole);
        });
        return Values{};
      },
      [&] {
        cutAndDivide(shares, value);
        return Values{};
      });
  k.barrier(); // floors and remainders are known
  k.loop(thread, heads, step, [&](Expr head) {
    Expr own = k.load(remainders, {head});
    Values sums = k.loop(0, heads, 1, {k.i32(0), k.i32(0)},
                         [&](Expr other, ArrayRef<Expr> carried) {
                           Expr rest = k.load(remainders, {other});
                           Expr before =
                               (rest > own) | ((rest == own) & (other < head));
                           return Values{carried[0] + k.load(floors, {other}),
                                         carried[1] + before.toI32()};
                         });
    Expr left = shares.total().toI32() - sums[0];
    store(head, k.load(floors, {head}) + (sums[1] < left).toI32());
  });
}
