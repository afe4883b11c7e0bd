//===- CheckOp.cpp - what an op must be to be lowered ---------------------===//

#include "passes/CheckOp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace kvc;

namespace {

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
  return isa<arith::ConstantOp, arith::SelectOp, arith::AddFOp, arith::SubFOp,
             arith::MulFOp, arith::DivFOp, arith::NegFOp, arith::MaximumFOp,
             arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp,
             arith::CmpFOp, arith::AddIOp, arith::SubIOp, arith::MulIOp,
             arith::DivUIOp, arith::CeilDivUIOp, arith::RemUIOp, arith::AndIOp,
             arith::OrIOp, arith::XOrIOp, arith::MaxSIOp, arith::MinSIOp,
             arith::MaxUIOp, arith::MinUIOp, arith::CmpIOp, arith::SIToFPOp,
             arith::UIToFPOp, arith::FPToSIOp, arith::FPToUIOp, arith::ExtUIOp,
             arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp,
             arith::IndexCastUIOp, math::ExpOp, math::Exp2Op, math::LogOp,
             math::Log2Op, math::Log1pOp, math::ExpM1Op, math::SqrtOp,
             math::RsqrtOp, math::AbsFOp, math::AbsIOp, math::TanhOp,
             math::FmaOp, math::FloorOp, math::CeilOp, math::PowFOp,
             math::CopySignOp, math::RoundEvenOp>(op);
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
    return op->emitError(
               "a fraction must be a kvc.fraction or a parameter, got "
               "the result of ")
           << op->getName();
  for (Value value : op->getResults())
    if (!isComputable(value.getType()) && !isa<KeyPrefixOp>(op))
      return op->emitError("values must be index, f32, i32, i1 or tensors of "
                           "the last three, got ")
             << value.getType();
  if (auto known = dyn_cast<NeedsOpInterface>(op))
    return known.verifyBound();
  return success();
}
