//===- EmitPTX.cpp - level gpu to PTX text --------------------------------===//

#include "codegen/emit/EmitPTX.h"

#include "codegen/emit/DependentLaunch.h"
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

/// 90 for sm_90 and sm_90a; 0 if it is none.
static unsigned chipNumber(StringRef chip) {
  unsigned number = 0;
  return chip.consume_front("sm_") && !chip.consumeInteger(10, number) ? number
                                                                       : 0;
}

static llvm::Error checkChip(StringRef chip) {
  // bf16 tensor-core instructions begin with sm_80.
  if (chipNumber(chip) < 80 || !isKnownChip(chip))
    return llvm::createStringError(
        "chip must be sm_80 or a later one that the backend knows, got '" +
        chip + "'");
  return llvm::Error::success();
}

static llvm::Expected<std::string> emitLowered(gpu::GPUModuleOp module,
                                               StringRef chip, bool quick) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      translateModuleToLLVMIR(module, context, "kvc");
  if (!llvmModule)
    return llvm::createStringError("translation to LLVM IR failed");
  auto machine = makeTargetMachine(nvptx(), chip);
  if (!machine)
    return machine.takeError();
  llvmModule->setTargetTriple(nvptx());
  llvmModule->setDataLayout((*machine)->createDataLayout());
  // LLVM makes a switch of comparisons of one value, and of a switch a table of labels:
  // an indirect branch.
  for (llvm::Function &function : *llvmModule)
    function.addFnAttr("no-jump-tables", "true");
  optimize(*llvmModule, **machine, quick);
  if (chipNumber(chip) >= 90)
    waitForEarlierLaunches(*llvmModule);
  return emit(*llvmModule, **machine, llvm::CodeGenFileType::AssemblyFile);
}

llvm::Expected<std::vector<std::string>>
kvc::emitPTXImages(ModuleOp module, ArrayRef<std::string> chips, bool quick) {
  for (const std::string &chip : chips)
    if (llvm::Error error = checkChip(chip))
      return error;
  std::vector<std::string> texts;
  if (chips.empty())
    return texts;
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager manager(module.getContext());
  // Level gpu has been verified; between upstream's lowerings only time is
  // lost.
  manager.enableVerifier(false);
  buildNVVMPipeline(manager);
  if (failed(manager.run(*copy)))
    return llvm::createStringError("lowering to NVVM failed");
  auto target = *copy->getOps<gpu::GPUModuleOp>().begin();
  for (const std::string &chip : chips) {
    llvm::Expected<std::string> text = emitLowered(target, chip, quick);
    if (!text)
      return text.takeError();
    texts.push_back(std::move(*text));
  }
  return texts;
}

llvm::Expected<std::string> kvc::emitPTX(ModuleOp module, StringRef chip,
                                         bool quick) {
  auto texts = emitPTXImages(module, chip.str(), quick);
  if (!texts)
    return texts.takeError();
  return std::move(texts->front());
}
