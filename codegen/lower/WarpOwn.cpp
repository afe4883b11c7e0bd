//===- WarpOwn.cpp - memory that each lane has for itself ------------------===//
//
// Element i of lane l lies at [i * 32 + l]: where lanes ask for the same element, which
// is all that kernels do, they read and write a row.
//
//===----------------------------------------------------------------------===//

#include "codegen/lower/WarpKernel.h"

using namespace mlir;
using namespace kvc;

LogicalResult WarpKernel::allocate(memref::AllocaOp op) {
  MemRefType type = op.getType();
  if (!type.hasStaticShape() || !type.getElementType().isIntOrFloat() ||
      type.getElementTypeBitWidth() != 32)
    return fail(op, "must have a constant number of words of 32 bits");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&func.getBody().front());
  Value bytes = number(b.getI64Type(), type.getNumElements() * 4 * warpSize);
  addresses[op] = LLVM::AllocaOp::create(b, pointer, b.getI8Type(), bytes, 64);
  return success();
}

Value WarpKernel::ownElement(Value memref, OperandRange indices) {
  if (indices.size() != 1 || !isUniform(indices.front()))
    return {};
  return LLVM::GEPOp::create(
      b, pointer, VectorType::get({warpSize}, b.getI32Type()),
      addresses.lookup(memref), ArrayRef<LLVM::GEPArg>{base(indices.front())});
}

LogicalResult WarpKernel::loadOwn(memref::LoadOp op) {
  Value row = ownElement(op.getMemRef(), op.getIndices());
  if (!row)
    return fail(op, "must ask for the same element in all lanes");
  ++counts.contiguous;
  defineVector(op, LLVM::LoadOp::create(b, lanesOf(op.getType()), row, 64));
  return success();
}

LogicalResult WarpKernel::storeOwn(memref::StoreOp op) {
  Value row = ownElement(op.getMemRef(), op.getIndices());
  if (!row)
    return fail(op, "must ask for the same element in all lanes");
  ++counts.contiguous;
  Value stored = vector(op.getValue());
  if (maskVector)
    LLVM::MaskedStoreOp::create(b, stored, row, maskVector, 64);
  else
    LLVM::StoreOp::create(b, stored, row, 64);
  return success();
}
