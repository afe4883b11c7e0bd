//===- Elementwise.h - arith and math by element, in double ---------------===//

#ifndef KVC_DIALECT_REFERENCE_ELEMENTWISE_H
#define KVC_DIALECT_REFERENCE_ELEMENTWISE_H

#include "dialect/reference/Meaning.h"

#include "mlir/IR/Operation.h"

namespace kvc::reference {

/// An op of arith or math on numbers. Where it has no meaning here an error is emitted at it.
llvm::LogicalResult evaluate(mlir::Operation *op, llvm::ArrayRef<Number> x,
                             Number &y);
/// The same of each element of operands that have the shape of `y`, which gets its data.
llvm::LogicalResult evaluate(mlir::Operation *op,
                             llvm::ArrayRef<Tensor> operands, Tensor &y);

} // namespace kvc::reference

#endif // KVC_DIALECT_REFERENCE_ELEMENTWISE_H
