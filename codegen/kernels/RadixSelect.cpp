//===- RadixSelect.cpp - exact top-k of one row by one block --------------===//

#include "codegen/kernels/RadixSelect.h"

using namespace mlir;
using namespace kvc;

static constexpr int64_t digitBits[] = {11, 11, 10};
static constexpr int64_t bins = 1 << 11;

Expr Selection::contains(Expr key, Expr item) const {
  return key.above(threshold) |
         ((key == threshold) & (item.toI32() <= lastTie));
}

Expr kvc::orderedKey(KernelBuilder &k, Expr score) {
  // Adding +0 turns -0 into +0 and changes nothing else.
  Expr bits = (score + k.f32(0)).bits();
  Expr negative = bits < 0;
  Expr key = negative.select(bits ^ k.i32(-1), bits | k.i32(INT32_MIN));
  return score.isNaN().select(k.i32(0), key);
}

RadixSelect::RadixSelect(KernelBuilder &k, ThreadBlock &block)
    : k(k), block(block) {
  histogram = k.shared(k.b.getI32Type(), bins);
  found = k.shared(k.b.getI32Type(), 4);
}

Selection RadixSelect::select(Expr count, Expr wanted,
                              llvm::function_ref<Expr(Expr)> key, Walk walk) {
  auto inOrder = [&](Count counted) {
    k.stream(
        k.thread(), count, block.threads, {},
        [&](Expr item) { return KernelBuilder::Values{key(item)}; },
        [&](Expr, ArrayRef<Expr> made, ArrayRef<Expr>) {
          counted(made[0]);
          return KernelBuilder::Values();
        });
  };
  // Nothing and everything need no search; the whole block agrees on it.
  auto constants = [&](int64_t threshold, Expr lastTie) {
    return KernelBuilder::Values{k.i32(threshold), lastTie};
  };
  auto result = k.choose(
      wanted < 1, [&] { return constants(-1, k.i32(-1)); },
      [&] {
        return k.choose(
            wanted >= count, [&] { return constants(0, count.toI32()); },
            [&] {
              Selection s =
                  search(count, wanted, key, walk ? walk : Walk(inOrder));
              return KernelBuilder::Values{s.threshold, s.lastTie};
            });
      });
  return {result[0], result[1]};
}

Selection RadixSelect::search(Expr count, Expr wanted,
                              llvm::function_ref<Expr(Expr)> key, Walk walk) {
  Expr zero = k.index(0), thread = k.thread();
  Expr step = k.index(block.threads);
  Expr prefix = k.i32(0), remaining = wanted.toI32(), ties;
  int64_t shift = 32;
  for (int64_t digit : digitBits) {
    int64_t above = shift;
    shift -= digit;
    k.loop(thread, bins, step,
           [&](Expr bin) { k.store(k.i32(0), histogram, {bin}); });
    k.barrier(); // the histogram is empty
    walk([&](Expr value) {
      Expr bin = ((value >> shift) & ((1 << digit) - 1)).toIndex();
      auto count1 = [&] { k.atomicAdd(k.i32(1), histogram, {bin}); };
      if (above == 32)
        count1();
      else
        k.when((value >> above) == prefix, count1);
    });
    k.barrier(); // the histogram is full
    // From the largest digit down: which bin holds the item we look for? Each
    // thread owns a run of bins.
    int64_t run = bins / block.threads;
    SmallVector<Expr> own;
    Expr local = k.i32(0);
    for (int64_t r = 0; r < run; ++r) {
      Expr bin = k.index(bins - 1) - (thread * run + r);
      own.push_back(k.load(histogram, {bin}));
      local = local + own.back();
    }
    Expr before = block.exclusiveSum(local);
    for (int64_t r = 0; r < run; ++r) {
      Expr after = before + own[r];
      k.when((before < remaining) & (remaining <= after), [&] {
        Expr bin = k.index(bins - 1) - (thread * run + r);
        k.store(bin.toI32(), found, {zero});
        k.store(remaining - before, found, {k.index(1)});
        k.store(own[r], found, {k.index(2)});
      });
      before = after;
    }
    k.barrier(); // the bin is found
    prefix = (prefix << digit) | k.load(found, {zero});
    remaining = k.load(found, {k.index(1)});
    ties = k.load(found, {k.index(2)});
    k.barrier(); // it has been read
  }
  Expr lastTie = k.choose(
      remaining == ties, [&] { return KernelBuilder::Values{count.toI32()}; },
      [&] {
        return KernelBuilder::Values{cutTies(count, prefix, remaining, key)};
      })[0];
  return {prefix, lastTie};
}

/// The item that is tie number `wanted`, in ascending order.
Expr RadixSelect::cutTies(Expr count, Expr threshold, Expr wanted,
                          llvm::function_ref<Expr(Expr)> key) {
  auto isTie = [&](Expr item) { return key(item) == threshold; };
  Expr mine = walkMarked(k, block.threads, count, k.i32(0), isTie);
  Expr before = block.warpSums(mine).first;
  walkMarked(k, block.threads, count, before, isTie,
             [&](Expr item, Expr tie, Expr number) {
               k.when(tie & (number + 1 == wanted),
                      [&] { k.store(item.toI32(), found, {k.index(3)}); });
             });
  k.barrier(); // the tie is found
  return k.load(found, {k.index(3)});
}
