//===- CheckOp.cpp - what an op must be to be lowered ---------------------===//

#include "passes/CheckOp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace kvc;

namespace {

constexpr int64_t maxQueries = 1024;
constexpr int64_t maxWidth = 255;
constexpr int64_t maxSegment = 1024;
constexpr int64_t maxRowReach = 12;
constexpr int64_t maxRowValues = 1024;

/// How often a point of rows or vectors is computed for one of `value`, through
/// pools of pools.
int64_t pooledValues(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  Operation *op = value.getDefiningOp();
  if (!op || !type || type.getRank() != 3)
    return 1;
  int64_t most = 1;
  for (Value operand : op->getOperands())
    most = std::max(most, pooledValues(operand));
  auto pool = dyn_cast<PoolOp>(op);
  return std::min<int64_t>(most * (pool ? constantOf(pool.getWidth()) : 1),
                           maxRowValues + 1);
}

/// The types that kernels compute with.
bool isComputable(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return !tensor.getElementType().isIndex() &&
           isComputable(tensor.getElementType());
  return type.isIndex() || isa<FractionType>(type) || type.isF32() ||
         type.isInteger(32) || type.isInteger(1);
}

/// The ops of arith and math that have one meaning on every target, and that
/// the reference knows. All others are refused by name: what a target makes of
/// them by itself may be a call that only one of them can link.
bool isLowered(Operation *op) {
  return isa<
      arith::ConstantOp, arith::SelectOp, arith::AddFOp, arith::SubFOp,
      arith::MulFOp, arith::DivFOp, arith::NegFOp, arith::MaximumFOp,
      arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp, arith::CmpFOp,
      arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivUIOp,
      arith::CeilDivUIOp, arith::RemUIOp, arith::AndIOp, arith::OrIOp,
      arith::XOrIOp, arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp,
      arith::MinUIOp, arith::CmpIOp, arith::SIToFPOp, arith::UIToFPOp,
      arith::FPToSIOp, arith::FPToUIOp, arith::ExtUIOp, arith::ExtSIOp,
      arith::TruncIOp, arith::IndexCastOp, arith::IndexCastUIOp, math::ExpOp,
      math::Exp2Op, math::LogOp, math::Log2Op, math::Log1pOp, math::ExpM1Op,
      math::SqrtOp, math::RsqrtOp, math::AbsFOp, math::AbsIOp, math::TanhOp,
      math::FmaOp, math::FloorOp, math::CeilOp, math::PowFOp,
      math::CopySignOp, math::RoundEvenOp>(op);
}

LogicalResult checkRange(Operation *op, StringRef what, Value value,
                         int64_t most) {
  int64_t constant = constantOf(value);
  if (constant >= 1 && constant <= most)
    return success();
  InFlightDiagnostic diag = op->emitOpError()
                            << what << " must be a constant of 1 to " << most
                            << " after parameters are bound, got ";
  if (constantOf(value) || value.getDefiningOp<arith::ConstantOp>())
    return diag << constant;
  return diag << "a value that is known at launch only";
}

/// A fraction between two whole numbers. Parameters are bound, and no op but
/// kvc.fraction makes one.
LogicalResult checkFraction(Operation *op, StringRef what, Value value,
                            int64_t least, int64_t most) {
  auto [numerator, denominator] = value.getDefiningOp<FractionOp>().getRatio();
  if (numerator >= least * denominator && numerator <= most * denominator)
    return success();
  return op->emitOpError() << what << " must be " << least << " to " << most
                           << " after parameters are bound, got "
                           << value.getDefiningOp<FractionOp>().getText();
}

} // namespace

LogicalResult kvc::checkOp(Operation *op) {
  // Signed division can trap; counts are never negative.
  if (isa<arith::DivSIOp, arith::RemSIOp, arith::CeilDivSIOp,
          arith::FloorDivSIOp>(op))
    return op->emitError("counts are divided as unsigned numbers, got ")
           << op->getName();
  StringRef dialect = op->getName().getDialectNamespace();
  if (dialect != "kvc" && dialect != "arith" && dialect != "math")
    return op->emitError("a policy may use ops of kvc, arith and math, got ")
           << op->getName();
  if (dialect != "kvc" && !isLowered(op))
    return op->emitError("no lowering for ") << op->getName();
  bool onTensors =
      llvm::any_of(op->getResultTypes(), llvm::IsaPred<TensorType>);
  if (dialect != "kvc" && onTensors && !op->hasTrait<OpTrait::Elementwise>())
    return op->emitError("a tensor is made by an op of kvc or elementwise from "
                         "others, got ")
           << op->getName();
  if (dialect != "kvc" &&
      llvm::any_of(op->getResultTypes(), llvm::IsaPred<FractionType>))
    return op->emitError("a fraction must be a kvc.fraction or a parameter, got "
                         "the result of ")
           << op->getName();
  for (Value value : op->getResults())
    if (!isComputable(value.getType()))
      return op->emitError("values must be index, f32, i32, i1 or tensors of "
                           "the last three, got ")
             << value.getType();
  if (auto attention = dyn_cast<AttentionOp>(op);
      attention && !attention.readsAll())
    return checkRange(op, "last", attention.getLast(), maxQueries);
  if (auto layers = dyn_cast<AllocateLayersOp>(op))
    return checkFraction(op, "ratio", layers.getRatio(), 1, 1000000);
  if (auto scale = dyn_cast<ScaleCountOp>(op); scale && scale.getOver())
    if (scale.getShare().getDefiningOp<FractionOp>().getRatio().first == 0)
      return op->emitOpError("cannot divide by a share of 0");
  if (auto heads = dyn_cast<AllocateHeadsOp>(op))
    return checkFraction(op, "safeguard", heads.getSafeguard(), 0, 1);
  if (auto segment = dyn_cast<SegmentOp>(op))
    return checkRange(op, "length", segment.getLength(), maxSegment);
  if (auto pool = dyn_cast<PoolOp>(op)) {
    if (failed(checkRange(op, "width", pool.getWidth(), maxWidth)))
      return failure();
    if (constantOf(pool.getWidth()) % 2 == 0)
      return op->emitOpError("width must be odd, got ")
             << constantOf(pool.getWidth());
    if (int64_t reach = rowReach(pool); reach > maxRowReach)
      return op->emitOpError("pools of rows must reach at most ")
             << maxRowReach << " tokens to each side, got " << reach;
    if (pooledValues(pool) > maxRowValues)
      return op->emitOpError("pools of pools of rows must look at no more than ")
             << maxRowValues << " values for one, got a product of widths above";
  }
  return success();
}
