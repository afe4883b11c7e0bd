//===- RadixSelect.h - the threshold of an exact top-k, digit by digit ----===//

#ifndef KVC_CODEGEN_KERNELS_RADIXSELECT_H
#define KVC_CODEGEN_KERNELS_RADIXSELECT_H

#include "codegen/kernels/FirstDigit.h"
#include "codegen/kernels/SelectedScores.h"
#include "codegen/kernels/ThreadBlock.h"

namespace kvc {

/// Finds the key of the `wanted`-th largest item, and of equal keys the last
/// item that is selected. The first digit (FirstDigit.h) and one of 11 bits behind it
/// by histograms that many blocks have counted; those items that are left, which have
/// both digits, by their rank among each other, or where they are many by further
/// digits and those of their numbers. Made at the top of a kernel of 512 threads: takes
/// 8 KiB of shared memory, 32 KiB where a selection is finished, 16 in a cache of rows, and
/// 4 bytes a tally.
/// But for the block's histogram the whole block calls each of these, which have barriers
/// inside.
class RadixSelect {
public:
  /// `tallies`: numbers for somebody to count with, a multiple of the threads.
  RadixSelect(KernelBuilder &k, ThreadBlock &block, int64_t tallies = 0);

  /// A walk calls visit(seen) in any order, once for every item of the block, with as many
  /// items of the thread as are read together: their keys, which they are, and whether
  /// there is one (not valid: there is).
  struct Seen {
    Expr key, item, there;
    Expr among(Expr holds) const {
      return there.valid() ? there & holds : holds;
    }
  };
  using Visit = llvm::function_ref<void(llvm::ArrayRef<Seen>)>;
  using Walk = llvm::function_ref<void(Visit visit)>;
  using Chosen = llvm::function_ref<void(Expr item)>;

  /// Where in the order an item lies: what is known of its key, all but the lowest
  /// `rest` bits; the how manyth of the items that share this it is, and how many those
  /// are, if that was counted; the first digit, if it is the only one. i32. At the start
  /// nothing is known, and there is no prefix.
  struct Place {
    Expr prefix, rest, remaining, sharing, first;
    /// True for keys that have these digits.
    Expr has(Expr key) const;
    /// True for keys with larger ones: they come in front.
    Expr isBelow(Expr key) const;
  };
  /// Of the `wanted`-th largest, i32, while no digit is known.
  Place start(Expr wanted) const;
  /// Once the first one is.
  Place behind(Expr firstDigit, Expr remaining) const;

  /// The block's histogram: emptied, which needs a barrier behind it; one more key that
  /// has the place's digits, by its next one; all that it has, behind a barrier, added
  /// to a row of bins.
  void empty();
  void add(const Place &place, Expr key);
  void addTo(const Buffer &bins, llvm::ArrayRef<Expr> row);
  /// The bins that a thread looks at, of a sequence's heads from `head` on, `heads` of
  /// them (not valid: one), added up: where `takesPart` is given, of those that do.
  llvm::SmallVector<Expr>
  read(const Buffer &bins, Expr sequence, Expr head, Expr heads = {},
       llvm::function_ref<Expr(Expr head)> takesPart = nullptr);
  /// One digit on, by what has been read.
  Place descend(const Place &place, llvm::ArrayRef<Expr> counts);
  /// The selection, of items below `items`. `walk` visits those of which some have the
  /// digits of `place`. If somebody counts, `visited` is called with each of the former
  /// once, and `chosen` for each of the latter that is selected, with a barrier behind.
  Selection finish(const Place &place, Expr items, Walk walk,
                   Visit visited = nullptr, Chosen chosen = nullptr);
  /// Numbers for these to count with, i32: 0 as finish() begins.
  void tally(Expr number) { k.atomicAdd(k.i32(1), counted, {number}); }
  const Buffer &tallied() const { return counted; }

private:
  static constexpr int64_t bins = digitBins;
  /// Items that are ranked among each other, by two threads each, which look at so many
  /// of them at a time.
  static constexpr int64_t few = 256, halves = 2, together = 8;
  static constexpr int64_t padding = halves * together;

  Expr digitOf(const Place &place, Expr key) const;
  /// The first of the bins that a thread looks at, and what the block's own histogram
  /// has there.
  Expr ownBins() const;
  llvm::SmallVector<Expr> readShared() const;
  /// The bin that holds the `remaining`-th item from the top; the how manyth of its
  /// bin that is, and how many the bin has.
  struct Bin {
    Expr digit, remaining, sharing;
  };
  Bin findBin(Expr remaining, llvm::ArrayRef<Expr> counts);

  // RadixFinish.cpp
  void clear();
  Place refine(Place place, Walk walk);
  void gather(const Place &place, Walk walk, Visit visited);
  void walkLeft(const Place &place, Visit visit);
  Selection rank(const Place &place, Chosen chosen);
  Selection finishMany(const Place &place, Expr items, Walk walk,
                       Chosen chosen);
  Expr lastTieOf(const Place &key, Expr items, Walk walk);

  KernelBuilder &k;
  ThreadBlock &block;
  /// Items that are looked at in shared memory. Budgets of heads that have rows of
  /// their own take a part of it.
  const int64_t most, tallies;
  /// Whether somebody may still read the histogram of an earlier walk.
  bool isUsed = false;
  Buffer histogram, found, counted, leftKeys, leftItems;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_RADIXSELECT_H
