//===- RankedScores.h - what the last selection of a policy ranked --------===//

#ifndef KVC_PASSES_RANKEDSCORES_H
#define KVC_PASSES_RANKEDSCORES_H

#include "dialect/KVCDialect.h"

namespace kvc {

/// The stored scores that the last selection of a fused policy ranks, which a
/// caller may read when it has run: the result of a kernel, or of an op that
/// stores it in the selection's own. Null where nothing is ranked.
inline mlir::Value rankedScores(PolicyOp policy) {
  NeedsOpInterface last;
  policy.walk([&](NeedsOpInterface op) {
    if (op.getNeeds().ranks)
      last = op;
  });
  if (!last)
    return {};
  mlir::Value score = last.getNeeds().rows.front()->get();
  auto arg = llvm::dyn_cast<mlir::BlockArgument>(score);
  if (!arg)
    return score;
  return llvm::cast<KernelOp>(last->getParentOp()).getOperandOf(arg);
}

} // namespace kvc

#endif // KVC_PASSES_RANKEDSCORES_H
