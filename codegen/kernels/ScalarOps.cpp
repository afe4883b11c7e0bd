//===- ScalarOps.cpp - ops on numbers that a target would get wrong -------===//

#include "codegen/kernels/ScalarOps.h"

#include <cmath>

using namespace mlir;
using namespace kvc;

void kvc::guardOperands(KernelBuilder &k, Operation *op) {
  OpBuilder::InsertionGuard guard(k.b);
  k.b.setInsertionPoint(op);
  if (isa<arith::DivUIOp, arith::RemUIOp, arith::CeilDivUIOp>(op)) {
    Expr divisor = k.expr(op->getOperand(1));
    op->setOperand(1, (divisor == 0).select(divisor.same(1), divisor));
  }
  if (isa<math::CopySignOp>(op)) {
    Expr sign = k.expr(op->getOperand(1));
    op->setOperand(1, sign.isNaN().select(sign.same(0), sign));
  }
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
    Type type = op->getResult(0).getType();
    unsigned bits = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
    bool isSigned = isa<arith::FPToSIOp>(op);
    double least = isSigned ? -std::ldexp(1.0, bits - 1) : 0;
    double above = std::ldexp(1.0, isSigned ? bits - 1 : bits);
    // The largest float below the first number that does not fit.
    double most = bits == 1 ? above - 1 : above * (1 - 0x1p-24);
    Expr x = k.expr(op->getOperand(0));
    Expr number = x.isNaN().select(x.same(0), x);
    op->setOperand(0, number.max(x.same(least)).min(x.same(most)));
  }
}

std::pair<Expr, Expr> kvc::scaledInverse(KernelBuilder &k, Expr number) {
  Expr size = number.unary<math::AbsFOp>();
  Expr scale =
      (size < k.f32(0x1p-64))
          .select(k.f32(0x1p64),
                  (size > k.f32(0x1p64)).select(k.f32(0x1p-64), k.f32(1)));
  return {scale, k.f32(1) / (number * scale)};
}
