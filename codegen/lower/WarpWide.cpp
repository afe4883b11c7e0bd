//===- WarpWide.cpp - ops on lanes of 64 bits ------------------------------===//
//
// Products, comparisons and extremes of 64-bit numbers have no instruction in AVX2: for
// 32 lanes each is a hundred of them, and takes LLVM a millisecond or more. So they are
// functions, and kernels, whose indices are 64 bits, call them.
//
//===----------------------------------------------------------------------===//

#include "codegen/lower/WarpKernel.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kvc;

bool WarpKernel::isWide(Operation &op) {
  if (!isa<arith::MulIOp, arith::CmpIOp, arith::MinSIOp, arith::MaxSIOp,
           arith::MinUIOp, arith::MaxUIOp>(op) ||
      scalarOf(op.getOperand(0).getType()) != b.getI64Type())
    return false;
  // Of a constant factor LLVM makes shifts and sums.
  return !isa<arith::MulIOp>(op) ||
         !matchPattern(op.getOperand(1), m_Constant());
}

/// `kvc_wide_OP`, or `kvc_wide_OP_by` where the last operand is the same in all lanes.
static func::FuncOp wideFunction(ModuleOp module, Operation &op, bool by) {
  std::string name = ("kvc_wide_" + op.getName().stripDialect()).str();
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    name += "_" + arith::stringifyCmpIPredicate(compare.getPredicate()).str();
  if (by)
    name += "_by";
  if (auto known = module.lookupSymbol<func::FuncOp>(name))
    return known;
  auto b = ImplicitLocOpBuilder::atBlockEnd(op.getLoc(), module.getBody());
  auto lanes = VectorType::get({warpSize}, b.getI64Type());
  bool compares = isa<arith::CmpIOp>(op);
  Type result =
      compares ? VectorType::get({warpSize}, b.getI32Type()) : Type(lanes);
  auto function = func::FuncOp::create(
      b, name,
      b.getFunctionType({lanes, by ? b.getI64Type() : Type(lanes)}, {result}));
  function.setPrivate();
  Block *body = function.addEntryBlock();
  b.setInsertionPointToStart(body);
  Value x = body->getArgument(0), y = body->getArgument(1);
  if (by)
    y = vector::BroadcastOp::create(b, lanes, y);
  OperationState state(
      op.getLoc(), op.getName(), {x, y},
      {compares ? VectorType::get({warpSize}, b.getI1Type()) : Type(lanes)},
      op.getAttrs());
  Value made = b.create(state)->getResult(0);
  if (compares)
    made = arith::ExtSIOp::create(b, result, made);
  func::ReturnOp::create(b, made);
  return function;
}

Value WarpKernel::wide(Operation &op, Value x, Value y) {
  bool by = !isa<VectorType>(y.getType());
  auto call = func::CallOp::create(b, wideFunction(module, op, by), {x, y});
  Value made = call.getResult(0);
  if (!isa<arith::CmpIOp>(op))
    return made;
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, made,
                               zeros(cast<VectorType>(made.getType())));
}
