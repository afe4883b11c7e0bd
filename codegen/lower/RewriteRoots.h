//===- RewriteRoots.h - patterns for a few ops of many --------------------===//

#ifndef KVC_CODEGEN_LOWER_REWRITEROOTS_H
#define KVC_CODEGEN_LOWER_REWRITEROOTS_H

#include "mlir/Rewrite/FrozenRewritePatternSet.h"

namespace kvc {

/// Applies `patterns`, each of them to one kind of op, within `root` until none
/// matches, and looks at no op that none of them is for: applyPatternsGreedily folds
/// and simplifies everything, which takes longer than the patterns where they are for few
/// of many ops. Failure: a pattern went on matching what it made.
llvm::LogicalResult rewriteRoots(mlir::Operation *root,
                                 const mlir::FrozenRewritePatternSet &patterns);

} // namespace kvc

#endif // KVC_CODEGEN_LOWER_REWRITEROOTS_H
