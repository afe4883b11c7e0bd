//===- RadixSelect.h - the threshold of an exact top-k, digit by digit ----===//

#ifndef KVC_CODEGEN_KERNELS_RADIXSELECT_H
#define KVC_CODEGEN_KERNELS_RADIXSELECT_H

#include "codegen/kernels/SelectedScores.h"
#include "codegen/kernels/ThreadBlock.h"

namespace kvc {

/// Finds the key of the `wanted`-th largest item, and of equal keys the last
/// item that is selected. Digits of 11 and 11 bits by histograms that many
/// blocks have counted; those items that are left, which have both digits, by
/// their rank among each other, or where they are many by a third digit and those
/// of their numbers. Made at the top of a kernel of 512 threads: takes 8 KiB of
/// shared memory, 32 KiB where a selection is finished, 16 in a cache of rows. The
/// whole block calls each of these; all have barriers inside.
class RadixSelect {
public:
  RadixSelect(KernelBuilder &k, ThreadBlock &block);

  using Count = llvm::function_ref<void(Expr value)>;
  /// Calls count(value) once for every item of the block, in any order.
  using Walk = llvm::function_ref<void(Count count)>;
  /// Calls visit(seen) likewise, with as many items of the thread as are read together:
  /// their keys, where they are, and whether there is one (not valid: there is). Which
  /// item is at an index, itemOf(at) says.
  struct Seen {
    Expr key, at, there;
    Expr among(Expr holds) const {
      return there.valid() ? there & holds : holds;
    }
  };
  using Visit = llvm::function_ref<void(llvm::ArrayRef<Seen>)>;
  using WalkItems = llvm::function_ref<void(Visit visit)>;
  using ItemOf = llvm::function_ref<Expr(Expr at)>;

  /// Where in the order an item lies: the known digits of its key, the how
  /// manyth of the items that have them it is, and how many those are. i32.
  struct Place {
    Expr prefix, remaining, sharing;
    int64_t known = 0; // bits
    /// True for keys that have these digits.
    Expr has(Expr key) const;
    /// True for keys with larger ones.
    Expr isBelow(Expr key) const;
  };
  /// Of the `wanted`-th largest, i32, while no digit is known.
  Place start(Expr wanted) const;

  /// Adds to a row of bins how often each digit behind those of `place` occurs
  /// among the keys, which have these.
  void count(const Place &place, Walk keys, const Buffer &bins,
             llvm::ArrayRef<Expr> row);
  /// A thread's part of the bins of a sequence's heads from `head` on, `heads` of
  /// them (not valid: one), added up: where `takesPart` is given, of those that do.
  llvm::SmallVector<Expr>
  read(const Buffer &bins, Expr sequence, Expr head, Expr heads = {},
       llvm::function_ref<Expr(Expr head)> takesPart = nullptr);
  /// One digit on, by what has been read; or is read now.
  Place descend(const Place &place, llvm::ArrayRef<Expr> counts);
  Place descend(const Place &place, const Buffer &bins, Expr sequence,
                Expr head, Expr heads,
                llvm::function_ref<Expr(Expr head)> takesPart = nullptr);
  /// The selection, of items below `items`. `walk` visits those of which some
  /// have the digits of `place`; `chosen(item)` is called for each of the latter
  /// that is selected.
  Selection finish(const Place &place, Expr items, WalkItems walk,
                   ItemOf itemOf,
                   llvm::function_ref<void(Expr)> chosen = nullptr);

private:
  static constexpr int64_t bins = digitBins;
  /// Items that are ranked among each other, two threads each.
  static constexpr int64_t few = 256;

  void clear();
  Expr digitOf(const Place &place, Expr key) const;
  Place find(const Place &place);

  // RadixFinish.cpp
  Place refine(Place place, Walk walk);
  void gather(const Place &place, WalkItems walk, ItemOf itemOf);
  void walkLeft(const Place &place, Visit visit);
  Selection rank(const Place &place, llvm::function_ref<void(Expr)> chosen);
  Selection finishMany(const Place &place, Expr items, WalkItems walk,
                       ItemOf itemOf, llvm::function_ref<void(Expr)> chosen);
  Expr lastTieOf(const Place &key, Expr items, WalkItems walk, ItemOf itemOf);

  KernelBuilder &k;
  ThreadBlock &block;
  /// Items that are looked at in shared memory. Budgets of heads that have rows of
  /// their own take a part of it.
  const int64_t most;
  Buffer histogram, found, leftKeys, leftItems;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_RADIXSELECT_H
