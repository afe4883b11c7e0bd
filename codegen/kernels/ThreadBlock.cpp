//===- ThreadBlock.cpp - what the threads of a block compute together -----===//

#include "codegen/kernels/ThreadBlock.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

ThreadBlock::ThreadBlock(KernelBuilder &k, int64_t threads)
    : threads(threads), k(k) {
  floats = k.shared(k.b.getF32Type(), warpSize);
  integers = k.shared(k.b.getI32Type(), warpSize);
  handed = k.shared(k.b.getI32Type(), 1);
}

Expr ThreadBlock::reduce(ReduceKind kind, Expr value) {
  value = reduceLanes(k, kind, value);
  k.barrier(); // earlier readers of the shared slots are done
  k.when(k.lane() == 0, [&] { k.store(value, floats, {k.warp()}); });
  k.barrier();
  // Every warp reduces the warps' values the same way.
  Expr lane = k.lane();
  Expr mine = k.load(floats, {lane.min(k.index(threads / warpSize - 1))});
  value = (lane < threads / warpSize).select(mine, reductionStart(k, kind));
  return reduceLanes(k, kind, value);
}

Expr ThreadBlock::exchangeWarps(Expr value, int64_t lane) {
  k.barrier(); // earlier readers of the shared slots are done
  k.when(k.lane() == lane, [&] { k.store(value, integers, {k.warp()}); });
  k.barrier();
  int64_t warps = threads / warpSize;
  Expr mine = k.load(integers, {k.lane().min(k.index(warps - 1))});
  return (k.lane() < warps).select(mine, k.i32(0));
}

Expr ThreadBlock::sumInFront(Expr ofWarps) {
  return k.sumOfLanes((k.lane() < k.warp()).select(ofWarps, k.i32(0)));
}

std::pair<Expr, Expr> ThreadBlock::warpSums(Expr value) {
  Expr ofWarps = exchangeWarps(value, 0);
  return {sumInFront(ofWarps), k.sumOfLanes(ofWarps)};
}

Expr ThreadBlock::sum(Expr value) {
  return k.sumOfLanes(exchangeWarps(k.sumOfLanes(value), 0));
}

Expr ThreadBlock::exclusiveSum(Expr value) {
  Expr inclusive = inclusiveSum(k, value);
  // The last lane has its warp's total.
  return sumInFront(exchangeWarps(inclusive, warpSize - 1)) + inclusive - value;
}

Expr ThreadBlock::fromLastThread(llvm::function_ref<Expr()> make) {
  k.when(k.thread() == threads - 1,
         [&] { k.store(make(), handed, {k.index(0)}); });
  k.barrier();
  return k.load(handed, {k.index(0)});
}

Expr kvc::inclusiveSum(KernelBuilder &k, Expr value) {
  Expr sum = value, lane = k.lane();
  for (int64_t distance = 1; distance < warpSize; distance *= 2) {
    Expr below = k.shuffleUp(sum, distance);
    sum = (lane >= distance).select(sum + below, sum);
  }
  return sum;
}

Expr kvc::walkMarked(KernelBuilder &k, int64_t threads, Expr from, Expr to,
                     Expr start,
                     llvm::function_ref<KernelBuilder::Values(Expr)> make,
                     llvm::function_ref<void(Expr, ArrayRef<Expr>, Expr)> visit,
                     int64_t together) {
  Expr segment =
      ((to - from).max(k.index(0)) + (threads - 1)) / threads * warpSize;
  Expr first = from + k.warp() * segment;
  Expr last = (first + segment).min(to);
  // The warp's lanes stream together: none may leave before the last ballot.
  return k.streamOver(
      first, last, warpSize, {start},
      [&](Expr base) {
        Expr item = base + k.lane();
        Expr exists = item < last;
        KernelBuilder::Values made = make(item.min(last - 1));
        made[0] = exists & made[0];
        return made;
      },
      [&](Expr base, ArrayRef<Expr> made, ArrayRef<Expr> number) {
        Expr bits = k.ballot(made[0]);
        if (visit)
          visit(base + k.lane(), made, number[0] + bitsBelow(k, bits));
        return KernelBuilder::Values{number[0] + k.popcount(bits)};
      },
      together)[0];
}

Expr kvc::countMarked(KernelBuilder &k, ThreadBlock &block, Expr from, Expr to,
                      llvm::function_ref<Expr(Expr)> isMarked) {
  // So many items of each thread in flight; at the end fewer, not one by one.
  constexpr int64_t together = 16, atEnd = 8;
  Expr whole = from + (to - from).max(k.index(0)) / (block.threads * together) *
                          (block.threads * together);
  auto rounds = [&](Expr first, Expr end, int64_t count, Expr start,
                    bool guarded) {
    return k.fold(
        first, end, block.threads * count, start, [&](Expr base, Expr sum) {
          SmallVector<Expr> marks;
          for (int64_t i = 0; i < count; ++i) {
            Expr item = base + k.thread() + block.threads * i;
            marks.push_back(guarded ? (item < to) & isMarked(item.min(to - 1))
                                    : isMarked(item));
          }
          for (Expr mark : marks)
            sum = sum + mark.toI32();
          return sum;
        });
  };
  Expr count = k.eitherForm(
      [&] {
        return KernelBuilder::Values{k.fold(
            from + k.thread(), to, block.threads, k.i32(0),
            [&](Expr item, Expr sum) { return sum + isMarked(item).toI32(); })};
      },
      [&] {
        Expr most = rounds(from, whole, together, k.i32(0), false);
        return KernelBuilder::Values{rounds(whole, to, atEnd, most, true)};
      })[0];
  return block.sum(count);
}

Expr kvc::bitsBelow(KernelBuilder &k, Expr ballot) {
  Expr mask = (k.i32(1) << k.lane().toI32()) - 1;
  return k.popcount(ballot & mask);
}
