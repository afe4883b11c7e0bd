//===- HeadShares.h - budgets that move between heads of different length -===//

#ifndef KVC_CODEGEN_KERNELS_HEADSHARES_H
#define KVC_CODEGEN_KERNELS_HEADSHARES_H

#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/ThreadBlock.h"

namespace kvc {

/// What each KV head of a cache of rows brings to a ranking over all of them: its
/// base, tokens of the budget, and its past, which is also the most that it gets. A
/// head whose window takes the whole budget takes no part: both are 0. Made at the
/// top of a kernel: takes 8 KiB of shared memory. The whole block calls `open`, which
/// has barriers inside.
class HeadShares {
public:
  HeadShares(KernelBuilder &k, ThreadBlock &block);

  /// `base(scalars of the head, head)`, index; may be below 0, which counts as 0.
  void open(const SequenceScalars &s, YieldOp yield,
            llvm::function_ref<Expr(const SequenceScalars &, Expr)> base);

  Expr base(Expr head) const { return k.load(bases, {head}).toIndex(); }
  Expr past(Expr head) const { return k.load(pasts, {head}).toIndex(); }
  Expr takesPart(Expr head) const { return k.load(pasts, {head}) > 0; }
  /// Of all heads together: the rows of their past, and how many of them are kept.
  Expr items() const { return allItems; }
  Expr total() const { return allTotal; }

private:
  KernelBuilder &k;
  ThreadBlock &block;
  Buffer bases, pasts;
  Expr allItems, allTotal;
};

/// Shares out a total: a head gets `value(head) / whole`, value an index, but for what
/// is above `shares.past`: that goes to the others in proportion to their values,
/// equally where these are 0. Rounded once by largest remainder, ties to the smaller
/// head. Where no value is above, they must add up to `whole` times the total. Exact: of
/// cut shares compared with 128 bits, divided with 64 in two steps. Made at the top of a
/// kernel: takes 16 KiB of shared memory.
class HeadDivision {
public:
  HeadDivision(KernelBuilder &k, ThreadBlock &block);

  /// The whole block calls it, which has barriers inside; `store(head, count)` is
  /// called once for each head.
  void divide(const HeadShares &shares, llvm::function_ref<Expr(Expr)> value,
              int64_t whole, llvm::function_ref<void(Expr, Expr)> store);

private:
  /// Of the heads that are not cut to their past: what is left of the total, the
  /// sum of their values, and their number.
  struct Open {
    Expr left, sum, number;
  };
  Open open(const HeadShares &shares, llvm::function_ref<Expr(Expr)> value);
  void note(Expr head, Expr floor, Expr remainder);
  /// Where some values are above. Floors and remainders.
  void cutAndDivide(const HeadShares &shares,
                    llvm::function_ref<Expr(Expr)> value);

  KernelBuilder &k;
  ThreadBlock &block;
  Buffer cut, floors, remainders;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_HEADSHARES_H
