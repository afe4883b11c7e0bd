//===- Expr.h - values with operators, for kernels one can read -----------===//
//
// An Expr is a Value and the builder that makes more of them, so that kernel
// builders read like kernels: `t < past`, `row * 16 + lane`. Integers are
// index or i32. `<` and its like, min and max are signed; `/`, `%`, `>>` and
// above() are unsigned: what is divided or shifted is never negative.
//
// An Expr is no bool of the compiler's own run: `if (a == b)` does not compile,
// and k.when(a == b, ...) is meant. Whether there is a value says valid().
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_EDSL_EXPR_H
#define KVC_CODEGEN_EDSL_EXPR_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {

class Expr {
public:
  Expr() = default;
  Expr(mlir::ImplicitLocOpBuilder &builder, mlir::Value value)
      : builder(&builder), value(value) {}

  operator mlir::Value() const { return value; }
  mlir::Type type() const { return value.getType(); }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(type()); }
  bool valid() const { return bool(value); }
  explicit operator bool() const = delete;

  /// A constant of this value's type.
  Expr same(double number) const {
    mlir::Type t = type();
    mlir::TypedAttr attr =
        isFloat() ? mlir::TypedAttr(builder->getFloatAttr(t, number))
                  : mlir::TypedAttr(builder->getIntegerAttr(
                        t, static_cast<int64_t>(number)));
    return {*builder, mlir::arith::ConstantOp::create(*builder, attr)};
  }
  template <typename Op> Expr unary() const {
    return {*builder, Op::create(*builder, value)};
  }
  template <typename Op> Expr binary(Expr other) const {
    return {*builder, Op::create(*builder, value, other.value)};
  }
  template <typename IntOp, typename FloatOp> Expr arith(Expr other) const {
    return isFloat() ? binary<FloatOp>(other) : binary<IntOp>(other);
  }
  Expr compare(mlir::arith::CmpIPredicate integer,
               mlir::arith::CmpFPredicate real, Expr other) const {
    if (isFloat())
      return {*builder,
              mlir::arith::CmpFOp::create(*builder, real, value, other.value)};
    return {*builder,
            mlir::arith::CmpIOp::create(*builder, integer, value, other.value)};
  }

  Expr operator+(Expr o) const {
    return arith<mlir::arith::AddIOp, mlir::arith::AddFOp>(o);
  }
  Expr operator-(Expr o) const {
    return arith<mlir::arith::SubIOp, mlir::arith::SubFOp>(o);
  }
  Expr operator*(Expr o) const {
    return arith<mlir::arith::MulIOp, mlir::arith::MulFOp>(o);
  }
  Expr operator/(Expr o) const {
    return arith<mlir::arith::DivUIOp, mlir::arith::DivFOp>(o);
  }
  Expr operator%(Expr o) const { return binary<mlir::arith::RemUIOp>(o); }
  Expr operator&(Expr o) const { return binary<mlir::arith::AndIOp>(o); }
  Expr operator|(Expr o) const { return binary<mlir::arith::OrIOp>(o); }
  Expr operator^(Expr o) const { return binary<mlir::arith::XOrIOp>(o); }
  Expr operator<<(Expr o) const { return binary<mlir::arith::ShLIOp>(o); }
  Expr operator>>(Expr o) const { return binary<mlir::arith::ShRUIOp>(o); }
  Expr operator<(Expr o) const {
    return compare(mlir::arith::CmpIPredicate::slt,
                   mlir::arith::CmpFPredicate::OLT, o);
  }
  Expr operator<=(Expr o) const {
    return compare(mlir::arith::CmpIPredicate::sle,
                   mlir::arith::CmpFPredicate::OLE, o);
  }
  Expr operator>(Expr o) const { return o < *this; }
  Expr operator>=(Expr o) const { return o <= *this; }
  Expr operator==(Expr o) const {
    return compare(mlir::arith::CmpIPredicate::eq,
                   mlir::arith::CmpFPredicate::OEQ, o);
  }
  // They would look at both sides as bools. `&` and `|` work on bits.
  void operator&&(Expr) const = delete;
  void operator||(Expr) const = delete;
  void operator!() const = delete;

  Expr operator+(int64_t n) const { return *this + same(n); }
  Expr operator-(int64_t n) const { return *this - same(n); }
  Expr operator*(int64_t n) const { return *this * same(n); }
  Expr operator/(int64_t n) const { return *this / same(n); }
  Expr operator%(int64_t n) const { return *this % same(n); }
  Expr operator&(int64_t n) const { return *this & same(n); }
  Expr operator<<(int64_t n) const { return *this << same(n); }
  Expr operator>>(int64_t n) const { return *this >> same(n); }
  Expr operator<(int64_t n) const { return *this < same(n); }
  Expr operator>(int64_t n) const { return *this > same(n); }
  Expr operator>=(int64_t n) const { return *this >= same(n); }
  Expr operator==(int64_t n) const { return *this == same(n); }

  /// True where a > b as unsigned numbers.
  Expr above(Expr o) const {
    return compare(mlir::arith::CmpIPredicate::ugt,
                   mlir::arith::CmpFPredicate::OGT, o);
  }
  Expr isNaN() const {
    return {*builder,
            mlir::arith::CmpFOp::create(
                *builder, mlir::arith::CmpFPredicate::UNO, value, value)};
  }
  Expr select(Expr yes, Expr no) const {
    return {*builder, mlir::arith::SelectOp::create(*builder, value, yes.value,
                                                    no.value)};
  }
  /// Signed for integers; NaN propagates for floats.
  Expr max(Expr o) const {
    return arith<mlir::arith::MaxSIOp, mlir::arith::MaximumFOp>(o);
  }
  Expr min(Expr o) const {
    return arith<mlir::arith::MinSIOp, mlir::arith::MinimumFOp>(o);
  }
  /// this * a + b with one rounding on every target.
  Expr multiplyAdd(Expr a, Expr b) const {
    return {*builder,
            mlir::math::FmaOp::create(*builder, value, a.value, b.value)};
  }
  Expr toIndex() const {
    return {*builder, mlir::arith::IndexCastOp::create(
                          *builder, builder->getIndexType(), value)};
  }
  Expr toI32() const {
    if (type().isInteger(1))
      return {*builder, mlir::arith::ExtUIOp::create(
                            *builder, builder->getI32Type(), value)};
    return {*builder, mlir::arith::IndexCastOp::create(
                          *builder, builder->getI32Type(), value)};
  }
  Expr toFloat() const {
    return {*builder, mlir::arith::SIToFPOp::create(
                          *builder, builder->getF32Type(),
                          type().isIndex() ? toI32().value : value)};
  }
  /// An f32 that an i32 can hold, toward 0.
  Expr truncate() const {
    return {*builder, mlir::arith::FPToSIOp::create(
                          *builder, builder->getI32Type(), value)};
  }
  /// f32 from any element type.
  Expr widen() const {
    if (type().isF32())
      return *this;
    return {*builder, mlir::arith::ExtFOp::create(
                          *builder, builder->getF32Type(), value)};
  }
  Expr bits() const {
    return {*builder, mlir::arith::BitcastOp::create(
                          *builder, builder->getI32Type(), value)};
  }
  /// The f32 that has these 32 bits.
  Expr asFloat() const {
    return {*builder, mlir::arith::BitcastOp::create(
                          *builder, builder->getF32Type(), value)};
  }

private:
  mlir::ImplicitLocOpBuilder *builder = nullptr;
  mlir::Value value;
};

} // namespace kvc

#endif // KVC_CODEGEN_EDSL_EXPR_H
