//===- RadixSelect.h - the threshold of an exact top-k, digit by digit ----===//

#ifndef KVC_CODEGEN_KERNELS_RADIXSELECT_H
#define KVC_CODEGEN_KERNELS_RADIXSELECT_H

#include "codegen/kernels/FirstDigit.h"
#include "codegen/kernels/SelectedScores.h"
#include "codegen/kernels/ThreadBlock.h"

namespace kvc {

/// Finds the key of the `wanted`-th largest item, and of equal keys the last
/// item that is selected. The first digit (FirstDigit.h) by a histogram that many blocks
/// have counted, one of 11 bits behind it by theirs or the block's own; those items that are
/// left, which have both digits, by their rank among each other, or where they are many by
/// further digits and those of their numbers. Made at the top of a kernel of 512 threads:
/// takes 8 KiB of shared memory, where a selection is finished 2 more and 8 bytes for each
/// item that there is room for, and 4 bytes a tally.
/// But for the block's histogram and what it notes the whole block calls each of these,
/// which have barriers inside.
class RadixSelect {
public:
  static constexpr int64_t usualRoom = 3072;
  /// `tallies`: numbers for somebody to count with, a multiple of the threads.
  RadixSelect(KernelBuilder &k, ThreadBlock &block, int64_t tallies = 0,
              int64_t room = usualRoom);

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
  /// has the place's digits, by its next one; and all that it has, behind a barrier: the
  /// bins that a thread looks at, or added to a row of bins.
  void empty();
  void add(const Place &place, Expr key);
  llvm::SmallVector<Expr> readShared() const;
  void addTo(const Buffer &bins, llvm::ArrayRef<Expr> row);
  /// The bins that a thread looks at, of a sequence's heads from `head` on, `heads` of
  /// them (not valid: one), added up: where `takesPart` is given, of those that do.
  llvm::SmallVector<Expr>
  read(const Buffer &bins, Expr sequence, Expr head, Expr heads = {},
       llvm::function_ref<Expr(Expr head)> takesPart = nullptr);
  /// One digit on, by what has been read.
  Place descend(const Place &place, llvm::ArrayRef<Expr> counts);

  /// How many items are noted at most.
  const int64_t room;
  /// In front of notes: nothing is noted, no bin is counted, and each tally is what `tally`
  /// says of its number (null: 0). Needs a barrier behind it.
  void begin(llvm::function_ref<Expr(Expr number)> tally = nullptr);
  /// Notes those of a thread's items that `has` marks, as long as there is room.
  void note(llvm::ArrayRef<Expr> has, llvm::ArrayRef<Seen> seen);
  /// The same without keys: a thread takes slots for so many, and notes one in each. Behind a
  /// barrier all have their keys made, and are counted by their next digit.
  Expr takeSlots(Expr count);
  void noteAt(Expr slot, Expr item);
  void makeKeys(const Place &place, llvm::function_ref<Expr(Expr item)> keyOf);
  /// How many are noted and which, by number, behind a barrier.
  Expr countNoted() const;
  Seen notedAt(Expr number) const;
  void walkNoted(Visit visit) const;
  /// The selection, of items below `items`. Some are candidates: they share digits with the
  /// threshold, which lies at `place` among them. `again` visits them, and `areNoted` says
  /// whether all of them are noted. `chosen` is called once for each of them that is
  /// selected, with a barrier behind.
  Selection finish(const Place &place, Expr items, Expr areNoted, Walk again,
                   Chosen chosen = nullptr);
  /// Numbers to count with, i32.
  void tally(Expr number) { tally(number, k.i32(1)); }
  void tally(Expr number, Expr count) { k.atomicAdd(count, counted, {number}); }
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
  /// The bin that holds the `remaining`-th item from the top; the how manyth of its
  /// bin that is, and how many the bin has.
  struct Bin {
    Expr digit, remaining, sharing;
  };
  Bin findBin(Expr remaining, llvm::ArrayRef<Expr> counts);

  // RadixFinish.cpp
  void clear();
  Place refine(Place place, Walk walk);
  void gather(const Place &place, Chosen chosen);
  Selection rank(const Place &place, Chosen chosen);
  Selection finishMany(const Place &place, Expr items, Walk walk,
                       Chosen chosen);
  Expr lastTieOf(const Place &key, Expr items, Walk walk);

  KernelBuilder &k;
  ThreadBlock &block;
  const int64_t tallies;
  /// Whether somebody may still read the histogram of an earlier walk.
  bool isUsed = false;
  /// `places`: how many are noted, and how many are left.
  Buffer histogram, found, places, counted;
  struct Items {
    Buffer keys, items;
  };
  Items noted, left;
  /// Puts those that `has` marks behind each other; the thread has one wait for all of them.
  void put(int64_t place, llvm::ArrayRef<Expr> has,
           llvm::function_ref<void(size_t i, Expr slot)> store);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_RADIXSELECT_H
