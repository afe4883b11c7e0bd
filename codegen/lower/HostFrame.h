//===- HostFrame.h - what a host kernel reads of its context ---------------===//
//
// Offsets are those of kvc/simt.h. Both forms of a host kernel, for a thread and for a
// warp, begin alike.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_LOWER_HOSTFRAME_H
#define KVC_CODEGEN_LOWER_HOSTFRAME_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace kvc {

class HostFrame {
public:
  explicit HostFrame(mlir::ImplicitLocOpBuilder &b)
      : b(b), pointer(mlir::LLVM::LLVMPointerType::get(b.getContext())) {}

  mlir::ImplicitLocOpBuilder &b;
  const mlir::Type pointer;
  /// The first argument of the function.
  mlir::Value context;

  mlir::Value at(mlir::Value base, int64_t bytes);
  mlir::Value field(mlir::Type type, int64_t offset);
  /// Entry `offset` of the context's table.
  mlir::Value function(int64_t offset);
  /// Calls it. Returns null where `result` is null.
  mlir::Value call(int64_t offset, mlir::Type result, mlir::ValueRange operands,
                   bool withContext = true);
  /// The kernel's argument in slot `index` of `args`; a memref's is its address.
  mlir::Value argument(mlir::Value args, unsigned index, mlir::Type type);
  /// Calls `place(memory, offset)` for each of the kernel's buffers in block memory,
  /// where it lies in it. Returns the bytes of all.
  static int64_t
  placeShared(llvm::ArrayRef<mlir::BlockArgument> memories,
              llvm::function_ref<void(mlir::BlockArgument, int64_t)> place);
};

} // namespace kvc

#endif // KVC_CODEGEN_LOWER_HOSTFRAME_H
