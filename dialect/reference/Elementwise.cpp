//===- Elementwise.cpp - arith and math on one element, in double ---------===//

#include "dialect/reference/Elementwise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;

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

static bool compare(arith::CmpIPredicate predicate, double a, double b) {
  auto ua = uint32_t(int64_t(a)), ub = uint32_t(int64_t(b));
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
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

bool kvc::reference::evaluate(Operation *op, ArrayRef<double> x, double &y) {
  bool known = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case<arith::AddFOp, arith::AddIOp>([&](auto) { y = x[0] + x[1]; })
      .Case<arith::SubFOp, arith::SubIOp>([&](auto) { y = x[0] - x[1]; })
      .Case<arith::MulFOp>([&](auto) { y = x[0] * x[1]; })
      .Case<arith::MulIOp>([&](auto) {
        y = op->getResult(0).getType().isInteger(1) ? x[0] && x[1]
                                                    : x[0] * x[1];
      })
      .Case<arith::DivFOp>([&](auto) { y = x[0] / x[1]; })
      .Case<arith::DivUIOp>(
          [&](auto) { y = std::trunc(x[0] / (x[1] == 0 ? 1 : x[1])); })
      .Case<arith::CeilDivUIOp>(
          [&](auto) { y = std::ceil(x[0] / (x[1] == 0 ? 1 : x[1])); })
      .Case<arith::RemUIOp>(
          [&](auto) { y = std::fmod(x[0], x[1] == 0 ? 1 : x[1]); })
      .Case<arith::RemFOp>([&](auto) { y = std::fmod(x[0], x[1]); })
      .Case<arith::NegFOp>([&](auto) { y = -x[0]; })
      .Case<arith::MaximumFOp, arith::MaxSIOp, arith::MaxUIOp>(
          [&](auto) { y = maximum(x[0], x[1]); })
      .Case<arith::MinimumFOp, arith::MinSIOp, arith::MinUIOp>(
          [&](auto) { y = minimum(x[0], x[1]); })
      .Case<arith::MaxNumFOp>([&](auto) { y = std::fmax(x[0], x[1]); })
      .Case<arith::MinNumFOp>([&](auto) { y = std::fmin(x[0], x[1]); })
      .Case<arith::AndIOp>(
          [&](auto) { y = double(int64_t(x[0]) & int64_t(x[1])); })
      .Case<arith::OrIOp>(
          [&](auto) { y = double(int64_t(x[0]) | int64_t(x[1])); })
      .Case<arith::XOrIOp>(
          [&](auto) { y = double(int64_t(x[0]) ^ int64_t(x[1])); })
      .Case<arith::CmpFOp>([&](arith::CmpFOp cmp) {
        y = compare(cmp.getPredicate(), x[0], x[1]);
      })
      .Case<arith::CmpIOp>([&](arith::CmpIOp cmp) {
        y = compare(cmp.getPredicate(), x[0], x[1]);
      })
      .Case<arith::SelectOp>([&](auto) { y = x[0] != 0 ? x[1] : x[2]; })
      .Case<arith::SIToFPOp, arith::UIToFPOp, arith::ExtUIOp,
            arith::IndexCastOp, arith::IndexCastUIOp>([&](auto) { y = x[0]; })
      .Case<arith::FPToSIOp, arith::FPToUIOp>(
          [&](auto) { y = std::trunc(x[0]); })
      .Case<math::ExpOp>([&](auto) { y = std::exp(x[0]); })
      .Case<math::Exp2Op>([&](auto) { y = std::exp2(x[0]); })
      .Case<math::ExpM1Op>([&](auto) { y = std::expm1(x[0]); })
      .Case<math::LogOp>([&](auto) { y = std::log(x[0]); })
      .Case<math::Log2Op>([&](auto) { y = std::log2(x[0]); })
      .Case<math::Log1pOp>([&](auto) { y = std::log1p(x[0]); })
      .Case<math::SqrtOp>([&](auto) { y = std::sqrt(x[0]); })
      .Case<math::RsqrtOp>([&](auto) { y = 1 / std::sqrt(x[0]); })
      .Case<math::AbsFOp, math::AbsIOp>([&](auto) { y = std::abs(x[0]); })
      .Case<math::TanhOp>([&](auto) { y = std::tanh(x[0]); })
      .Case<math::FloorOp>([&](auto) { y = std::floor(x[0]); })
      .Case<math::RoundEvenOp>([&](auto) { y = std::nearbyint(x[0]); })
      .Case<math::CeilOp>([&](auto) { y = std::ceil(x[0]); })
      .Case<math::PowFOp>([&](auto) { y = std::pow(x[0], x[1]); })
      .Case<math::CopySignOp>([&](auto) { y = std::copysign(x[0], x[1]); })
      .Case<math::FmaOp>([&](auto) { y = x[0] * x[1] + x[2]; })
      .Default([&](Operation *) { known = false; });
  return known;
}
