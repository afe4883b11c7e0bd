//===- Elementwise.cpp - arith and math on one element, in double ---------===//

#include "dialect/reference/Elementwise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace kvc;
using namespace kvc::reference;

static double maximum(double a, double b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
}
static double minimum(double a, double b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
}

static bool compare(arith::CmpFPredicate predicate, double a, double b) {
  bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
  case arith::CmpFPredicate::AlwaysFalse:
    return false;
  case arith::CmpFPredicate::AlwaysTrue:
    return true;
  case arith::CmpFPredicate::ORD:
    return !unordered;
  case arith::CmpFPredicate::UNO:
    return unordered;
  case arith::CmpFPredicate::OEQ:
    return !unordered && a == b;
  case arith::CmpFPredicate::ONE:
    return !unordered && a != b;
  case arith::CmpFPredicate::OGT:
    return !unordered && a > b;
  case arith::CmpFPredicate::OGE:
    return !unordered && a >= b;
  case arith::CmpFPredicate::OLT:
    return !unordered && a < b;
  case arith::CmpFPredicate::OLE:
    return !unordered && a <= b;
  case arith::CmpFPredicate::UEQ:
    return unordered || a == b;
  case arith::CmpFPredicate::UNE:
    return unordered || a != b;
  case arith::CmpFPredicate::UGT:
    return unordered || a > b;
  case arith::CmpFPredicate::UGE:
    return unordered || a >= b;
  case arith::CmpFPredicate::ULT:
    return unordered || a < b;
  case arith::CmpFPredicate::ULE:
    return unordered || a <= b;
  }
  return false;
}

static unsigned bitsOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
}

// Integers are held as what they are worth with a sign, masks as 0 and 1.

/// What an operation of signed numbers sees: of one bit, 0 and -1.
static int64_t asSigned(int64_t x, Type type) {
  return bitsOf(type) == 1 ? -int64_t(x != 0) : x;
}

static uint64_t asUnsigned(int64_t x, Type type) {
  uint64_t bits = uint64_t(x);
  return bitsOf(type) == 64 ? bits : bits & ((uint64_t(1) << bitsOf(type)) - 1);
}

/// A result of that many bits: what is above is lost.
static int64_t wrapped(uint64_t bits, Type type) {
  switch (bitsOf(type)) {
  case 1:
    return int64_t(bits & 1);
  case 32:
    return int32_t(uint32_t(bits));
  default:
    return int64_t(bits);
  }
}

/// Toward zero; the nearest integer that exists, 0 for NaN.
static int64_t truncated(double x, Type type, bool isSigned) {
  unsigned bits = bitsOf(type);
  double least = isSigned ? -std::ldexp(1.0, bits - 1) : 0;
  double above = std::ldexp(1.0, isSigned ? bits - 1 : bits);
  // The largest float below the first number that does not fit.
  double most = bits == 1 ? above - 1 : above * (1 - 0x1p-24);
  if (std::isnan(x))
    return 0;
  x = std::trunc(std::clamp(x, least, most));
  return wrapped(x < 0 ? uint64_t(int64_t(x)) : uint64_t(x), type);
}

static bool compare(arith::CmpIPredicate predicate, int64_t a, int64_t b,
                    Type type) {
  int64_t sa = asSigned(a, type), sb = asSigned(b, type);
  uint64_t ua = asUnsigned(a, type), ub = asUnsigned(b, type);
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return ua == ub;
  case arith::CmpIPredicate::ne:
    return ua != ub;
  case arith::CmpIPredicate::slt:
    return sa < sb;
  case arith::CmpIPredicate::sle:
    return sa <= sb;
  case arith::CmpIPredicate::sgt:
    return sa > sb;
  case arith::CmpIPredicate::sge:
    return sa >= sb;
  case arith::CmpIPredicate::ult:
    return ua < ub;
  case arith::CmpIPredicate::ule:
    return ua <= ub;
  case arith::CmpIPredicate::ugt:
    return ua > ub;
  case arith::CmpIPredicate::uge:
    return ua >= ub;
  }
  return false;
}

/// An op on whole numbers.
static bool evaluateInteger(Operation *op, ArrayRef<Number> x, Number &y) {
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  auto u = [&](size_t i) { return asUnsigned(x[i].whole, from); };
  auto s = [&](size_t i) { return asSigned(x[i].whole, from); };
  auto divisor = [&] { return std::max<uint64_t>(u(1), 1); };
  auto put = [&](uint64_t bits) { y = Number::ofWhole(wrapped(bits, to)); };
  bool known = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case<arith::AddIOp>([&](auto) { put(u(0) + u(1)); })
      .Case<arith::SubIOp>([&](auto) { put(u(0) - u(1)); })
      .Case<arith::MulIOp>([&](auto) { put(u(0) * u(1)); })
      .Case<arith::DivUIOp>([&](auto) { put(u(0) / divisor()); })
      .Case<arith::RemUIOp>([&](auto) { put(u(0) % divisor()); })
      .Case<arith::CeilDivUIOp>(
          [&](auto) { put(u(0) / divisor() + (u(0) % divisor() != 0)); })
      .Case<arith::MaxSIOp>([&](auto) { put(std::max(s(0), s(1))); })
      .Case<arith::MinSIOp>([&](auto) { put(std::min(s(0), s(1))); })
      .Case<arith::MaxUIOp>([&](auto) { put(std::max(u(0), u(1))); })
      .Case<arith::MinUIOp>([&](auto) { put(std::min(u(0), u(1))); })
      .Case<arith::AndIOp>([&](auto) { put(u(0) & u(1)); })
      .Case<arith::OrIOp>([&](auto) { put(u(0) | u(1)); })
      .Case<arith::XOrIOp>([&](auto) { put(u(0) ^ u(1)); })
      .Case<math::AbsIOp>(
          [&](auto) { put(s(0) < 0 ? -uint64_t(s(0)) : uint64_t(s(0))); })
      .Case<arith::CmpIOp>([&](arith::CmpIOp cmp) {
        put(compare(cmp.getPredicate(), x[0].whole, x[1].whole, from));
      })
      .Case<arith::ExtUIOp, arith::TruncIOp, arith::IndexCastUIOp>(
          [&](auto) { put(u(0)); })
      .Case<arith::ExtSIOp, arith::IndexCastOp>([&](auto) { put(s(0)); })
      .Case<arith::SIToFPOp>([&](auto) { y = Number::ofReal(double(s(0))); })
      .Case<arith::UIToFPOp>([&](auto) { y = Number::ofReal(double(u(0))); })
      .Default([&](Operation *) { known = false; });
  return known;
}

static bool evaluateElement(Operation *op, ArrayRef<Number> numbers,
                            Number &result) {
  if (isa<arith::SelectOp>(op)) {
    result = numbers[0].whole != 0 ? numbers[1] : numbers[2];
    return true;
  }
  SmallVector<double> x;
  for (const Number &number : numbers)
    x.push_back(number.real);
  bool known = true;
  result = {};
  double &y = result.real;
  llvm::TypeSwitch<Operation *>(op)
      .Case<arith::AddFOp>([&](auto) { y = x[0] + x[1]; })
      .Case<arith::SubFOp>([&](auto) { y = x[0] - x[1]; })
      .Case<arith::MulFOp>([&](auto) { y = x[0] * x[1]; })
      .Case<arith::DivFOp>([&](auto) { y = x[0] / x[1]; })
      .Case<arith::NegFOp>([&](auto) { y = -x[0]; })
      .Case<arith::MaximumFOp>([&](auto) { y = maximum(x[0], x[1]); })
      .Case<arith::MinimumFOp>([&](auto) { y = minimum(x[0], x[1]); })
      .Case<arith::MaxNumFOp>([&](auto) { y = std::fmax(x[0], x[1]); })
      .Case<arith::MinNumFOp>([&](auto) { y = std::fmin(x[0], x[1]); })
      .Case<arith::CmpFOp>([&](arith::CmpFOp cmp) {
        result = Number::ofWhole(compare(cmp.getPredicate(), x[0], x[1]));
      })
      .Case<arith::FPToSIOp, arith::FPToUIOp>([&](auto) {
        result = Number::ofWhole(truncated(x[0], op->getResult(0).getType(),
                                           isa<arith::FPToSIOp>(op)));
      })
      .Case<math::ExpOp>([&](auto) { y = std::exp(x[0]); })
      .Case<math::Exp2Op>([&](auto) { y = std::exp2(x[0]); })
      .Case<math::ExpM1Op>([&](auto) { y = std::expm1(x[0]); })
      .Case<math::LogOp>([&](auto) { y = std::log(x[0]); })
      .Case<math::Log2Op>([&](auto) { y = std::log2(x[0]); })
      .Case<math::Log1pOp>([&](auto) { y = std::log1p(x[0]); })
      .Case<math::SqrtOp>([&](auto) { y = std::sqrt(x[0]); })
      .Case<math::RsqrtOp>([&](auto) { y = 1 / std::sqrt(x[0]); })
      .Case<math::AbsFOp>([&](auto) { y = std::abs(x[0]); })
      .Case<math::TanhOp>([&](auto) { y = std::tanh(x[0]); })
      .Case<math::FloorOp>([&](auto) { y = std::floor(x[0]); })
      .Case<math::RoundEvenOp>([&](auto) { y = std::nearbyint(x[0]); })
      .Case<math::CeilOp>([&](auto) { y = std::ceil(x[0]); })
      .Case<math::PowFOp>([&](auto) { y = std::pow(x[0], x[1]); })
      .Case<math::CopySignOp>(
          [&](auto) { y = std::copysign(x[0], std::isnan(x[1]) ? 0 : x[1]); })
      .Case<math::FmaOp>([&](auto) { y = x[0] * x[1] + x[2]; })
      .Default(
          [&](Operation *) { known = evaluateInteger(op, numbers, result); });
  return known;
}

LogicalResult reference::evaluate(Operation *op, ArrayRef<Number> numbers,
                                  Number &result) {
  if (evaluateElement(op, numbers, result))
    return success();
  return op->emitError("the reference has no meaning for ") << op->getName();
}

LogicalResult reference::evaluate(Operation *op, ArrayRef<Tensor> operands,
                                  Tensor &result) {
  size_t size = size_t(result.heads() * result.perHead());
  result.data.clear();
  result.data.reserve(size);
  SmallVector<bool> isReal;
  for (Value operand : op->getOperands())
    isReal.push_back(isa<FloatType>(getElementTypeOrSelf(operand)));
  SmallVector<Number> x(operands.size());
  for (size_t i = 0; i < size; ++i) {
    Number number;
    for (auto [value, real, tensor] : llvm::zip(x, isReal, operands))
      value = real ? Number::ofReal(tensor.data[i])
                   : Number::ofWhole(int64_t(tensor.data[i]));
    if (failed(evaluate(op, x, number)))
      return failure();
    result.data.push_back(number.real);
  }
  return success();
}
