//===- ThreadBlock.cpp - what the threads of a block compute together -----===//

#include "codegen/kernels/ThreadBlock.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

ThreadBlock::ThreadBlock(KernelBuilder &k, int64_t threads)
    : threads(threads), k(k) {
  floats = k.shared(k.b.getF32Type(), warpSize);
  integers = k.shared(k.b.getI32Type(), warpSize);
}

Expr ThreadBlock::reduce(ReduceKind kind, Expr value) {
  for (int64_t mask = warpSize / 2; mask; mask /= 2)
    value = reductionStep(kind, value, k.shuffleXor(value, mask));
  k.barrier(); // earlier readers of the shared slots are done
  k.when(k.lane() == 0, [&] { k.store(value, floats, {k.warp()}); });
  k.barrier();
  // Every warp reduces the warps' values the same way.
  Expr lane = k.lane();
  Expr mine = k.load(floats, {lane.min(k.index(threads / warpSize - 1))});
  value = (lane < threads / warpSize).select(mine, reductionStart(k, kind));
  for (int64_t mask = warpSize / 2; mask; mask /= 2)
    value = reductionStep(kind, value, k.shuffleXor(value, mask));
  return value;
}

std::pair<Expr, Expr> ThreadBlock::warpSums(Expr value) {
  k.barrier();
  k.when(k.lane() == 0, [&] { k.store(value, integers, {k.warp()}); });
  k.barrier();
  auto sums =
      k.loop(0, threads / warpSize, 1, {k.i32(0), k.i32(0)},
             [&](Expr w, ArrayRef<Expr> carried) {
               Expr n = k.load(integers, {w});
               Expr front = (w < k.warp()).select(n, k.i32(0));
               return KernelBuilder::Values{carried[0] + front, carried[1] + n};
             });
  return {sums[0], sums[1]};
}

Expr ThreadBlock::exclusiveSum(Expr value) {
  Expr inclusive = value, lane = k.lane();
  for (int64_t distance = 1; distance < warpSize; distance *= 2) {
    Expr below = k.shuffleUp(inclusive, distance);
    inclusive = (lane >= distance).select(inclusive + below, inclusive);
  }
  // Lane 0 of each warp publishes the warp's total.
  Expr total = inclusive;
  for (int64_t mask = warpSize / 2; mask; mask /= 2) {
    Expr other = k.shuffleXor(total, mask);
    total = total.max(other); // inclusive sums ascend: the last is the largest
  }
  return warpSums(total).first + inclusive - value;
}

Expr ThreadBlock::fromLastThread(llvm::function_ref<Expr()> make) {
  k.barrier(); // earlier readers of the shared slots are done
  k.when(k.thread() == threads - 1,
         [&] { k.store(make(), integers, {k.index(0)}); });
  k.barrier();
  return k.load(integers, {k.index(0)});
}

Expr kvc::walkMarked(KernelBuilder &k, int64_t threads, Expr from, Expr to,
                     Expr start, llvm::function_ref<Expr(Expr)> isMarked,
                     llvm::function_ref<void(Expr, Expr, Expr)> visit) {
  Expr segment = (to - from + (threads - 1)) / threads * warpSize;
  Expr first = from + k.warp() * segment;
  Expr last = (first + segment).min(to);
  // The warp's lanes stream together: none may leave before the last ballot.
  return k.stream(
      first, last, warpSize, {start},
      [&](Expr base) {
        Expr item = base + k.lane();
        return KernelBuilder::Values{(item < last) &
                                     isMarked(item.min(last - 1))};
      },
      [&](Expr base, ArrayRef<Expr> mark, ArrayRef<Expr> number) {
        Expr bits = k.ballot(mark[0]);
        if (visit)
          visit(base + k.lane(), mark[0], number[0] + bitsBelow(k, bits));
        return KernelBuilder::Values{number[0] + k.popcount(bits)};
      })[0];
}

Expr kvc::bitsBelow(KernelBuilder &k, Expr ballot) {
  Expr mask = (k.i32(1) << k.lane().toI32()) - 1;
  return k.popcount(ballot & mask);
}
