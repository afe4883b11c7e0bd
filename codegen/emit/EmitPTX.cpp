//===- EmitPTX.cpp - level gpu to PTX text --------------------------------===//

#include "codegen/emit/EmitPTX.h"

#include "codegen/emit/LLVMTarget.h"
#include "codegen/Pipelines.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace kvc;

static const llvm::Triple &nvptx() {
  static const llvm::Triple triple("nvptx64-nvidia-cuda");
  static const bool initialised = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialised;
  return triple;
}

bool kvc::isKnownChip(StringRef chip) {
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(nvptx(), message);
  if (!target || !chip.starts_with("sm_"))
    return false;
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      target->createMCSubtargetInfo(nvptx(), "sm_80", ""));
  return info->isCPUStringValid(chip);
}

llvm::Expected<std::string> kvc::emitPTX(ModuleOp module, StringRef chip,
                                         bool quick) {
  // bf16 tensor-core instructions begin with sm_80.
  unsigned number = 0;
  StringRef digits = chip;
  if (!digits.consume_front("sm_") || digits.consumeInteger(10, number) ||
      number < 80 || !isKnownChip(chip))
    return llvm::createStringError(
        "chip must be sm_80 or a later one that the backend knows, got '" +
        chip + "'");
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager manager(module.getContext());
  // Level gpu has been verified; between upstream's lowerings only time is
  // lost.
  manager.enableVerifier(false);
  buildNVVMPipeline(manager);
  if (failed(manager.run(*copy)))
    return llvm::createStringError("lowering to NVVM failed");

  auto target = *copy->getOps<gpu::GPUModuleOp>().begin();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      translateModuleToLLVMIR(target, context, "kvc");
  if (!llvmModule)
    return llvm::createStringError("translation to LLVM IR failed");
  auto machine = makeTargetMachine(nvptx(), chip);
  if (!machine)
    return machine.takeError();
  llvmModule->setTargetTriple(nvptx());
  llvmModule->setDataLayout((*machine)->createDataLayout());
  optimize(*llvmModule, **machine, quick);
  return emit(*llvmModule, **machine, llvm::CodeGenFileType::AssemblyFile);
}
