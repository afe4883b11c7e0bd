//===- Candidates.h - selection over blocks: digits, candidates, threshold ===//
//
// An exact selection in three kernels. Many blocks count the first digits of their
// spans' scores (kvc.count_digits). Behind them every block knows the digit of the
// threshold; many blocks list the tokens that have it, the candidates, count their
// second digits, and how many tokens are above them (kvc.list_candidates; both in
// CandidateLists.h). Behind that every block that asks finds the threshold for itself,
// in one walk over the candidates (RadixSelect.h).
//
// Of a short past the kernel between, which does nothing but list, costs more than it
// saves and is left out: every block that asks for its head walks all of its tokens
// (ShortPasts.cpp), of which kvc.key_prefix has 16 bits each. The longest sequence of a
// call says which it is (KernelSite::listsAbove).
//
// The whole block calls each of these; all have barriers inside.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_CANDIDATES_H
#define KVC_CODEGEN_KERNELS_CANDIDATES_H

#include "codegen/kernels/RadixSelect.h"
#include "codegen/kernels/RowBlock.h"

namespace kvc {

/// Where a kernel finds what the others have made for a selection.
class Candidates {
public:
  /// `made`: the operands of kvc.topk, or without the last one of kvc.allocate_heads, whose
  /// scores are `score`.
  Candidates(KernelBuilder &k, const KernelSite &site, Expr sequence,
             mlir::Value score, mlir::ValueRange made);

  /// kvc.topk for the block's head. Nothing and everything need no search. `inFront`: how
  /// many are selected of the tokens in front of the block's span, i32; not valid where
  /// `countsInFront` says that nobody asks.
  struct Found {
    Selection selection;
    Expr inFront;
  };
  Found select(RowBlock &row, RadixSelect &radix, Expr wanted,
               bool countsInFront) const;
  /// The same of more tokens than none and fewer than all. If `counts`, radix, which
  /// has RowSplits::most tallies, says of each split how many are selected.
  Selection search(RowBlock &row, RadixSelect &radix, Expr wanted,
                   bool counts) const;
  /// How many of each head are among the largest of all heads, so many as were asked for
  /// when they were listed, above 0 and below all that there are: adds them to `chosen`,
  /// which is 0. Ties go to the smaller position, below `positions`, then to the smaller
  /// head.
  void countChosen(RadixSelect &radix, ThreadBlock &block,
                   const SequenceScalars &s, Expr positions,
                   const Buffer &chosen) const;

private:
  /// Behind search(): see Found.
  Expr countInFront(RowBlock &row, RadixSelect &radix) const;
  /// How many tokens of a head's split have a larger first digit, i32; 0 of splits that
  /// are not.
  Expr countAbove(Expr head, Expr split) const;

  KernelBuilder &k;
  Expr sequence;
  mlir::Value score;
  Expr isListed;
  /// So many of each thread are in flight, and none at the end alone: there may be tens of
  /// thousands.
  static constexpr int64_t together = 4;
  Buffer found, second, above, place, tokens, keys, digits, prefixes;

  /// What is known of the threshold once the items that share some of its digits are noted:
  /// by which they are, where it lies by one more, if they are known to need one, and
  /// whether there was room for all of them.
  struct Places {
    RadixSelect::Place noted, next;
    Expr areNoted;
  };
  /// Of a long past, by lists.
  Places noteLists(RowBlock &row, RadixSelect &radix, bool counts) const;
  /// Keys, then tokens, of some of a head's `count` candidates; i32.
  KernelBuilder::Values read(Expr head, Expr count, Expr first) const;
  RadixSelect::Seen listedAt(Expr head, Expr number, Expr there) const;
  /// Of a short past (ShortPasts.cpp).
  Places notePrefixes(RowBlock &row, RadixSelect &radix, Expr wanted,
                      bool counts) const;
  Expr keyAt(RowBlock &row, Expr token) const {
    return orderedKey(k, row.at(token)(score));
  }

  /// How many candidates a head has, index.
  Expr countOf(Expr head) const {
    return k.load(found, {sequence, head}).toIndex();
  }
  /// Where the threshold lies, by what was found out when candidates were listed.
  RadixSelect::Place firstPlace(const RadixSelect &radix, Expr head) const;
  /// The token of a candidate, by its number among its head's, as walk() visits it.
  Expr tokenOf(Expr head, Expr number) const {
    return k.load(tokens, {sequence, head, number}).toIndex();
  }
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_CANDIDATES_H
