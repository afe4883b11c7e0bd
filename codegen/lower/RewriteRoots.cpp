//===- RewriteRoots.cpp - patterns for a few ops of many ------------------===//

#include "codegen/lower/RewriteRoots.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

LogicalResult kvc::rewriteRoots(Operation *root,
                                const FrozenRewritePatternSet &patterns) {
  assert(patterns.getMatchAnyOpNativePatterns().empty());
  const auto &kinds = patterns.getOpSpecificNativePatterns();
  SmallVector<Operation *> ops;
  root->walk([&](Operation *op) {
    if (op != root && kinds.contains(op->getName()))
      ops.push_back(op);
  });
  // The driver takes the last one first.
  std::reverse(ops.begin(), ops.end());
  GreedyRewriteConfig config;
  config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps);
  return applyOpPatternsGreedily(ops, patterns, config);
}
