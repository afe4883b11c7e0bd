//===- Cosines.cpp - cosines from products of vectors and norms -----------===//

#include "codegen/kernels/Cosines.h"

#include "codegen/kernels/ScalarOps.h"

using namespace mlir;
using namespace kvc;

KernelBuilder::Values kvc::cosineDivisor(KernelBuilder &k, Expr norm) {
  auto [scale, inverse] = scaledInverse(k, norm);
  return {(norm == k.f32(0)).select(k.f32(0), scale), inverse};
}

Expr kvc::cosineOf(KernelBuilder &k, Expr product, ArrayRef<Expr> divisor) {
  Expr quotient = product * divisor[0] * divisor[1];
  return (divisor[0] == k.f32(0))
      .select(k.f32(0), quotient.multiplyAdd(k.f32(0), quotient));
}
