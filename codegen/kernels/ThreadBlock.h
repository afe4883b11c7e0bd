//===- ThreadBlock.h - what the threads of a block compute together -------===//

#ifndef KVC_CODEGEN_KERNELS_THREADBLOCK_H
#define KVC_CODEGEN_KERNELS_THREADBLOCK_H

#include "codegen/kernels/PointEval.h"

namespace kvc {

/// Collectives of a block of up to 32 warps. Made at the top of a kernel: takes
/// shared memory. Every thread of the block must call them, with barriers
/// inside.
class ThreadBlock {
public:
  ThreadBlock(KernelBuilder &k, int64_t threads);

  const int64_t threads;

  /// The reduction of every thread's value, in a fixed tree.
  Expr reduce(ReduceKind kind, Expr value);
  /// Sum of the values of the threads in front; i32.
  Expr exclusiveSum(Expr value);
  /// What the last thread makes, i32; the others do not. Between two of these, or in front
  /// of one in a loop, must be another collective.
  Expr fromLastThread(llvm::function_ref<Expr()> make);
  /// Sum of every thread's value; i32.
  Expr sum(Expr value);
  /// Sums of one i32 per warp: of the warps in front, of all.
  std::pair<Expr, Expr> warpSums(Expr value);

private:
  /// A number of each warp, which `lane` of it has: the lane that has a warp's number
  /// gets it.
  Expr exchangeWarps(Expr value, int64_t lane);
  Expr sumInFront(Expr ofWarps);

  KernelBuilder &k;
  Buffer floats, integers, handed;
};

/// Sum of the values of the warp's lanes up to this one, in a fixed tree; i32 or f32.
Expr inclusiveSum(KernelBuilder &k, Expr value);

/// Walks the items `from` to `to` in ascending order, each warp a contiguous segment, and
/// counts those that are marked, from `start` on: make(item) gives whether one is, and
/// what else visit(item, made, number) is called with, beside the count so far. Returns
/// the count behind the warp's segment. Every lane of a warp makes the same number of
/// steps, so many of them in flight.
Expr walkMarked(
    KernelBuilder &k, int64_t threads, Expr from, Expr to, Expr start,
    llvm::function_ref<KernelBuilder::Values(Expr item)> make,
    llvm::function_ref<void(Expr item, llvm::ArrayRef<Expr> made, Expr number)>
        visit = nullptr,
    int64_t together = 4);

/// How many of the items `from` to `to` are marked, i32: the same, where nobody asks
/// which. No lane waits for others, so that many items of a thread are in flight.
Expr countMarked(KernelBuilder &k, ThreadBlock &block, Expr from, Expr to,
                 llvm::function_ref<Expr(Expr item)> isMarked);

/// The number of set bits of lower lanes.
Expr bitsBelow(KernelBuilder &k, Expr ballot);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_THREADBLOCK_H
