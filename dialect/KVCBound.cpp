//===- KVCBound.cpp - what holds once parameters are bound ----------------===//
//
// The labels C1, C2 ... are those of the ops' descriptions and of the tests.
// Checked by kvc-check-policy, and by kvc-check-kernels at level fused.
//
//===----------------------------------------------------------------------===//

#include "dialect/KVCDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kvc;

namespace {

constexpr int64_t maxQueries = 1024;
constexpr int64_t maxWidth = 255;
constexpr int64_t maxSegment = 1024;
constexpr int64_t maxRowReach = 12;
constexpr int64_t maxRowValues = 1024;

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
                            int64_t least, std::optional<int64_t> most) {
  auto [numerator, denominator] = value.getDefiningOp<FractionOp>().getRatio();
  if (numerator >= least * denominator &&
      (!most || numerator <= *most * denominator))
    return success();
  return op->emitOpError() << what << " must be " << least
                           << (most ? " to " + std::to_string(*most)
                                    : std::string(" or more"))
                           << " after parameters are bound, got "
                           << value.getDefiningOp<FractionOp>().getText();
}

} // namespace

LogicalResult AttentionOp::verifyBound() {
  if (readsAll() || readsNew())
    return success();
  return checkRange(*this, "last", getLast(), maxQueries); // C1
}

LogicalResult RowStatisticsOp::verifyBound() {
  return checkRange(*this, "last", getLast(), maxQueries);
}

LogicalResult SegmentOp::verifyBound() {
  return checkRange(*this, "length", getLength(), maxSegment); // C2
}

LogicalResult PoolOp::verifyBound() {
  if (failed(checkRange(*this, "width", getWidth(), maxWidth))) // C1
    return failure();
  if (constantOf(getWidth()) % 2 == 0) // C1
    return emitOpError("width must be odd, got ") << constantOf(getWidth());
  auto [reach, values] = pooledBehind(getResult());
  if (reach > maxRowReach) // C3
    return emitOpError("pools of rows or vectors must reach at most ")
           << maxRowReach << " tokens to each side, got " << reach;
  if (values > maxRowValues) // C3
    return emitOpError("pools of rows or vectors must look at no more than ")
           << maxRowValues << " values for one, got " << values;
  return success();
}

LogicalResult AllocateLayersOp::verifyBound() {
  return checkFraction(*this, "ratio", getRatio(), 1, std::nullopt); // C1
}

LogicalResult AllocateHeadsOp::verifyBound() {
  return checkFraction(*this, "safeguard", getSafeguard(), 0, 1); // C2
}

LogicalResult ScaleCountOp::verifyBound() {
  if (getOver() &&
      getShare().getDefiningOp<FractionOp>().getRatio().first == 0) // C1
    return emitOpError("cannot divide by a share of 0");
  return success();
}
