//===- RankedScores.h - what the selection of the kept tokens ranked ------===//

#ifndef KVC_PASSES_RANKEDSCORES_H
#define KVC_PASSES_RANKEDSCORES_H

#include "dialect/KVCDialect.h"

namespace kvc {

/// The op of a fused policy that ranks and so makes this mask, in whatever kernel; null
/// where a mask is made of several.
inline NeedsOpInterface rankingOf(mlir::Value mask) {
  while (true) {
    if (auto arg = llvm::dyn_cast<mlir::BlockArgument>(mask)) {
      auto kernel = llvm::dyn_cast<KernelOp>(arg.getOwner()->getParentOp());
      if (!kernel)
        return {};
      mask = kernel.getOperandOf(arg);
    } else if (auto kernel = mask.getDefiningOp<KernelOp>()) {
      auto yield =
          llvm::cast<YieldOp>(kernel.getBody().front().getTerminator());
      mask =
          yield.getValues()[llvm::cast<mlir::OpResult>(mask).getResultNumber()];
    } else {
      auto op = llvm::dyn_cast<NeedsOpInterface>(mask.getDefiningOp());
      return op && op.getNeeds().ranks ? op : NeedsOpInterface();
    }
  }
}

/// The selection whose scores are shown: the one that marks the kept tokens, or the last
/// where several do together. Null where nothing is ranked.
inline NeedsOpInterface shownRanking(PolicyOp policy) {
  NeedsOpInterface last, kept;
  policy.walk([&](NeedsOpInterface op) {
    if (op.getNeeds().ranks)
      last = op;
  });
  policy.walk([&](ListKeptOp list) { kept = rankingOf(list.getMask()); });
  return kept ? kept : last;
}

/// The stored scores that it ranks, which a caller may read when it has run: the result
/// of a kernel, or of an op that stores it in the selection's own.
inline mlir::Value rankedScores(PolicyOp policy) {
  NeedsOpInterface shown = shownRanking(policy);
  if (!shown)
    return {};
  mlir::Value score = shown.getNeeds().rows.front()->get();
  auto arg = llvm::dyn_cast<mlir::BlockArgument>(score);
  if (!arg)
    return score;
  return llvm::cast<KernelOp>(shown->getParentOp()).getOperandOf(arg);
}

} // namespace kvc

#endif // KVC_PASSES_RANKEDSCORES_H
