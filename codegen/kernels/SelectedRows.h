//===- SelectedRows.h - which tokens some rows of a selection are ---------===//
//
// What a selection keeps of a head, in ascending order, some rows of it at a time, by a
// block that knows nothing of other blocks'. The search for the threshold says how many
// tokens of each split (RowSplits) are selected, a prefix sum then which splits have the
// rows, and warps walk these, a split each.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_SELECTEDROWS_H
#define KVC_CODEGEN_KERNELS_SELECTEDROWS_H

#include "codegen/kernels/Candidates.h"

namespace kvc {

/// Made at the top of a kernel of 512 threads: takes the shared memory of a RadixSelect
/// that finishes, with a tally for each split, and 4 KiB. The whole block calls `search`
/// and `list`, which have barriers inside.
class SelectedRows {
public:
  using Values = KernelBuilder::Values;
  /// Rows that are listed at a time, at most.
  static constexpr int64_t together = RowBlock::threads;

  SelectedRows(KernelBuilder &k, ThreadBlock &block);

  /// Finds kvc.topk of the block's head where some are selected and some are not. Where
  /// that is known only at run time, `know` is told what comes of it, or `none`.
  Values search(RowBlock &row, const Candidates &candidates, Expr wanted);
  Values none();
  void know(llvm::ArrayRef<Expr> found);

  /// Puts the tokens of the rows `first` to `end`, all of them selected, into `tokens`,
  /// from its begin on. A barrier must be in front, once somebody has read those of other
  /// rows, and behind it.
  void list(RowBlock &row, mlir::Value score, Expr first, Expr end);
  /// i32 [together].
  const Buffer &tokens() const { return listed; }

private:
  static constexpr int64_t splitsOfThread = RowSplits::most / RowBlock::threads;
  Expr splitOfThread(int64_t i) { return k.thread() * splitsOfThread + i; }
  Values countInFront();
  void findEnds(Expr first, Expr end);

  KernelBuilder &k;
  ThreadBlock &block;
  RadixSelect radix;
  /// Behind `tokens` a place of each thread for what is not listed; and the splits that
  /// have the first and the last row.
  Buffer listed, ends;
  std::optional<SelectedScores> selected;
  /// How many are selected in front of each of the thread's splits, and behind the last.
  static constexpr int64_t bounds = splitsOfThread + 1;
  Values front;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_SELECTEDROWS_H
