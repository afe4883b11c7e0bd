//===- Elementwise.h - arith and math on one element, in double -----------===//

#ifndef KVC_DIALECT_REFERENCE_ELEMENTWISE_H
#define KVC_DIALECT_REFERENCE_ELEMENTWISE_H

#include "dialect/reference/Meaning.h"

#include "mlir/IR/Operation.h"

namespace kvc::reference {

/// One element of an op of arith or math; false if it has no meaning here.
bool evaluate(mlir::Operation *op, llvm::ArrayRef<Number> x, Number &y);

} // namespace kvc::reference

#endif // KVC_DIALECT_REFERENCE_ELEMENTWISE_H
