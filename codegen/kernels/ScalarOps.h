//===- ScalarOps.h - ops on numbers that a target would get wrong ---------===//

#ifndef KVC_CODEGEN_KERNELS_SCALAROPS_H
#define KVC_CODEGEN_KERNELS_SCALAROPS_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

/// Gives a policy's op a result where the target would trap or have none: an
/// integer division by 0 divides by 1; a float outside the integers' range
/// becomes the outermost float in it, NaN 0. NaN has no sign, so that which NaN
/// an op makes does not matter.
void guardOperands(KernelBuilder &k, mlir::Operation *op);

/// A power of two by which a number is scaled, and the inverse of the scaled number,
/// which is a number of the type: that of one far below 1 may be infinite, that of one
/// far above 1 has fewer bits. f32.
std::pair<Expr, Expr> scaledInverse(KernelBuilder &k, Expr number);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_SCALAROPS_H
