//===- HostFrame.cpp ------------------------------------------------------===//

#include "codegen/lower/HostFrame.h"

#include "kvc/simt.h"

#include "llvm/Support/MathExtras.h"

#include <cstddef>

using namespace mlir;
using namespace kvc;

Value HostFrame::at(Value base, int64_t bytes) {
  return LLVM::GEPOp::create(b, pointer, b.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>{int32_t(bytes)});
}

Value HostFrame::field(Type type, int64_t offset) {
  return LLVM::LoadOp::create(b, type, at(context, offset));
}

Value HostFrame::function(int64_t offset) {
  Value table = field(pointer, offsetof(kvc_simt_thread, ops));
  return LLVM::LoadOp::create(b, pointer, at(table, offset));
}

Value HostFrame::call(int64_t offset, Type result, ValueRange operands,
                      bool withContext) {
  SmallVector<Value> all{function(offset)};
  if (withContext)
    all.push_back(context);
  all.append(operands.begin(), operands.end());
  auto type = LLVM::LLVMFunctionType::get(
      result ? result : LLVM::LLVMVoidType::get(b.getContext()),
      SmallVector<Type>(ValueRange(all).drop_front().getTypes()));
  auto op = LLVM::CallOp::create(b, type, all);
  return result ? op.getResult() : Value();
}

Value HostFrame::argument(Value args, unsigned index, Type type) {
  return LLVM::LoadOp::create(b, isa<MemRefType>(type) ? pointer : type,
                              at(args, index * 8));
}

int64_t
HostFrame::placeShared(ArrayRef<BlockArgument> memories,
                       llvm::function_ref<void(BlockArgument, int64_t)> place) {
  int64_t offset = 0;
  for (BlockArgument memory : memories) {
    place(memory, offset);
    auto type = cast<MemRefType>(memory.getType());
    offset += llvm::alignTo(
        type.getNumElements() * type.getElementTypeBitWidth() / 8, 16);
  }
  return offset;
}
