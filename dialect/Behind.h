//===- Behind.h - the values that a value is computed from ----------------===//

#ifndef KVC_DIALECT_BEHIND_H
#define KVC_DIALECT_BEHIND_H

#include "mlir/IR/Value.h"

namespace kvc {

/// Shows a value to `body`, and where that says so the operands behind it. Each
/// value once: one may be an operand many times over, and of many.
void walkBehind(mlir::Value value, llvm::function_ref<bool(mlir::Value)> body);

} // namespace kvc

#endif // KVC_DIALECT_BEHIND_H
