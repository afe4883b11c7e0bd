//===- Candidates.h - selection over blocks: digits, candidates, threshold ===//
//
// An exact selection in three kernels. Many blocks count the first digits of
// their spans' scores (kvc.count_digits). Behind them every block knows the digit
// of the threshold; many blocks list the tokens that have it, the candidates, and
// count their second digits (kvc.list_candidates). Behind that every block that
// asks finds the threshold for itself, in one walk over the candidates
// (RadixSelect.h).
//
// The whole block calls each of these; all have barriers inside.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_CANDIDATES_H
#define KVC_CODEGEN_KERNELS_CANDIDATES_H

#include "codegen/kernels/HeadShares.h"
#include "codegen/kernels/RadixSelect.h"
#include "codegen/kernels/RowBlock.h"

namespace kvc {

/// kvc.count_digits for the block's span; sets the NaN bit of the status. The
/// scores go to `stored` as well, if that is a buffer.
void countDigits(RowBlock &row, RadixSelect &radix, CountDigitsOp op,
                 const std::optional<Buffer> &stored);

/// kvc.list_candidates for the block's span: reads the digits from `digits`.
/// `shares`: of a cache of rows, where it is for all heads together; else null.
void listCandidates(RowBlock &row, RadixSelect &radix, ListCandidatesOp op,
                    const Buffer &digits, HeadShares *shares);

/// Where a kernel finds what the others have made for a selection.
class Candidates {
public:
  /// `made`: the operands of kvc.topk or kvc.allocate_heads.
  Candidates(KernelBuilder &k, const KernelSite &site, Expr sequence,
             mlir::ValueRange made);

  /// kvc.topk for a head. Nothing and everything need no search.
  Selection select(RadixSelect &radix, ThreadBlock &block, Expr head,
                   Expr count, Expr wanted) const;
  /// How many of each head are among the `wanted` largest of all heads, above 0
  /// and below all that there are: adds them to `chosen`, which is 0. Ties go to the
  /// smaller position, below `positions`, then to the smaller head. `shares` as for
  /// listCandidates.
  void countChosen(RadixSelect &radix, ThreadBlock &block,
                   const SequenceScalars &s, Expr positions, Expr wanted,
                   const Buffer &chosen, const HeadShares *shares) const;

private:
  KernelBuilder &k;
  Expr sequence;
  Buffer digits, found, second, tokens, keys;

  /// Adds what each head has above a bin to `chosen`.
  void countAbove(ThreadBlock &block, const Buffer &histogram, Expr bin,
                  const Buffer &chosen,
                  llvm::function_ref<Expr(Expr head)> takesPart) const;

  /// How many candidates a head has, index.
  Expr countOf(Expr head) const {
    return k.load(found, {sequence, head}).toIndex();
  }
  /// The candidates of a head, `count` of them. Warps take parts of them in turns, of
  /// which `turn` is this one's first; not valid: threads take one each.
  void walk(ThreadBlock &block, Expr head, Expr count, Expr turn,
            RadixSelect::Visit visit) const;
  /// The token of a candidate, by its number among its head's, as walk() visits it.
  Expr tokenOf(Expr head, Expr number) const {
    return k.load(tokens, {sequence, head, number}).toIndex();
  }
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_CANDIDATES_H
