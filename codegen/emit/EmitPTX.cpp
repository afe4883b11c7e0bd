//===- EmitPTX.cpp - level gpu to PTX text --------------------------------===//

#include "codegen/emit/EmitPTX.h"

#include "codegen/emit/DependentLaunch.h"
#include "codegen/emit/LLVMTarget.h"
#include "codegen/Pipelines.h"
#include "codegen/WarpgroupForms.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
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

/// Warps that part must not take copies of these statements with them.
static void keepWarpgroupsTogether(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction))
        if (auto *text =
                llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()))
          if (llvm::StringRef(text->getAsmString()).contains("wgmma."))
            call->addFnAttr(llvm::Attribute::Convergent);
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
  if (multipliesByWarpgroups(chip))
    keepWarpgroupsTogether(*llvmModule);
  optimize(*llvmModule, **machine, quick);
  if (chipNumber(chip) >= 90)
    waitForEarlierLaunches(*llvmModule);
  return emit(*llvmModule, **machine, llvm::CodeGenFileType::AssemblyFile);
}

/// Images of chips that take the same forms of kernels.
static llvm::Error emitForms(ModuleOp module, ArrayRef<std::string> chips,
                             bool warpgroups, bool onlyOther, bool quick,
                             std::vector<PTXImage> &images) {
  if (chips.empty())
    return llvm::Error::success();
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager manager(module.getContext());
  // Level gpu has been verified; between upstream's lowerings only time is
  // lost.
  manager.enableVerifier(false);
  buildNVVMPipeline(manager, warpgroups, onlyOther);
  if (failed(manager.run(*copy)))
    return llvm::createStringError("lowering to NVVM failed");
  auto target = *copy->getOps<gpu::GPUModuleOp>().begin();
  for (const std::string &chip : chips) {
    llvm::Expected<std::string> text = emitLowered(target, chip, quick);
    if (!text)
      return text.takeError();
    images.push_back({chip, std::move(*text)});
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<PTXImage>>
kvc::emitPTXImages(ModuleOp module, ArrayRef<std::string> chips, bool quick) {
  SmallVector<std::string> plain, together;
  for (const std::string &chip : chips) {
    if (llvm::Error error = checkChip(chip))
      return error;
    (multipliesByWarpgroups(chip) ? together : plain).push_back(chip);
  }
  bool others = llvm::any_of(plain, [](StringRef chip) {
    return chipNumber(chip) <= 90 && !chip.ends_with("a");
  });
  if (others && !hasWarpgroupForms(*module.getOps<gpu::GPUModuleOp>().begin()))
    together.clear();
  std::vector<PTXImage> images;
  if (llvm::Error error = emitForms(module, plain, /*warpgroups=*/false,
                                    /*onlyOther=*/false, quick, images))
    return error;
  if (llvm::Error error = emitForms(module, together, /*warpgroups=*/true,
                                    /*onlyOther=*/others, quick, images))
    return error;
  return images;
}

llvm::Expected<std::string> kvc::emitPTX(ModuleOp module, StringRef chip,
                                         bool quick) {
  auto images = emitPTXImages(module, chip.str(), quick);
  if (!images)
    return images.takeError();
  return std::move(images->front().text);
}
