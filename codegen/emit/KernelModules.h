//===- KernelModules.h - each kernel's LLVM IR by itself ------------------===//

#ifndef KVC_CODEGEN_EMIT_KERNELMODULES_H
#define KVC_CODEGEN_EMIT_KERNELMODULES_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <memory>

namespace kvc {

/// A module of LLVM and the context that nothing else is in: any one thread may have it.
struct OwnModule {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

/// For each kernel of `target` (level NVVM), in order, a gpu.module behind it with that
/// kernel and copies of the globals that it refers to. Kernels leave `target`.
llvm::SmallVector<mlir::gpu::GPUModuleOp>
splitKernels(mlir::gpu::GPUModuleOp target);

/// LLVM IR of one of them; no module: MLIR has said why it has none.
OwnModule translateAlone(mlir::gpu::GPUModuleOp kernel);

} // namespace kvc

#endif // KVC_CODEGEN_EMIT_KERNELMODULES_H
