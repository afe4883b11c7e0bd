//===- Cosines.h - cosines from products of vectors and norms -------------===//

#ifndef KVC_CODEGEN_KERNELS_COSINES_H
#define KVC_CODEGEN_KERNELS_COSINES_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

/// What products with a vector are divided by: a scale, 0 for a zero vector, and the
/// inverse of its scaled norm. f32.
constexpr int64_t cosineNumbers = 2;
KernelBuilder::Values cosineDivisor(KernelBuilder &k, Expr norm);

/// A product, divided by one vector's norm: the cosine times the norm of the other one.
/// An infinite product is that of an infinite vector, whose cosine is NaN: here already,
/// or it would win over a zero vector's, and two infinities could pass for two cosines
/// below 0.
Expr cosineOf(KernelBuilder &k, Expr product, llvm::ArrayRef<Expr> divisor);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_COSINES_H
