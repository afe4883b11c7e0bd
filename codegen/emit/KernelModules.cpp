//===- KernelModules.cpp --------------------------------------------------===//

#include "codegen/emit/KernelModules.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

/// The globals that `kernel` names, in the order in which it does.
static llvm::SetVector<Operation *> globalsOf(LLVM::LLVMFuncOp kernel,
                                              const SymbolTable &symbols) {
  llvm::SetVector<Operation *> globals;
  kernel.walk([&](LLVM::AddressOfOp address) {
    if (Operation *global = symbols.lookup(address.getGlobalName()))
      globals.insert(global);
  });
  return globals;
}

SmallVector<gpu::GPUModuleOp> kvc::splitKernels(gpu::GPUModuleOp target) {
  SymbolTable symbols(target);
  OpBuilder builder(target.getContext());
  builder.setInsertionPointAfter(target);
  SmallVector<gpu::GPUModuleOp> alone;
  for (auto kernel :
       llvm::make_early_inc_range(target.getOps<LLVM::LLVMFuncOp>())) {
    auto own =
        cast<gpu::GPUModuleOp>(builder.insert(target->cloneWithoutRegions()));
    Block &body = own.getBodyRegion().emplaceBlock();
    for (Operation *global : globalsOf(kernel, symbols))
      body.push_back(global->clone());
    kernel->moveBefore(&body, body.end());
    alone.push_back(own);
  }
  return alone;
}

kvc::OwnModule kvc::translateAlone(gpu::GPUModuleOp kernel) {
  OwnModule own;
  own.context = std::make_unique<llvm::LLVMContext>();
  own.module = translateModuleToLLVMIR(kernel, *own.context, "kvc");
  return own;
}
