//===- CheckOp.h - what an op must be to be lowered -----------------------===//

#ifndef KVC_PASSES_CHECKOP_H
#define KVC_PASSES_CHECKOP_H

#include "dialect/KVCDialect.h"

namespace kvc {

/// Checks an op of a policy or of a kernel, whose parameters are bound: that it
/// is one with a lowering, on types that kernels compute with, and that its
/// constants are in range. An error at the op says what is not.
llvm::LogicalResult checkOp(mlir::Operation *op);

} // namespace kvc

#endif // KVC_PASSES_CHECKOP_H
