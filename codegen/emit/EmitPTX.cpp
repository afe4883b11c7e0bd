//===- EmitPTX.cpp - level gpu to PTX text --------------------------------===//

#include "codegen/emit/EmitPTX.h"

#include "codegen/emit/DependentLaunch.h"
#include "codegen/emit/KernelModules.h"
#include "codegen/emit/LLVMTarget.h"
#include "codegen/Pipelines.h"
#include "codegen/WarpgroupForms.h"
#include "runtime/attend/Workers.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/Threading.h"

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

static bool isKnownChip(StringRef chip) {
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

llvm::Error kvc::checkChip(StringRef chip) {
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

/// What becomes of a kernel on one chip. Nobody else has its module.
static llvm::Expected<std::string> compile(OwnModule kernel, StringRef chip,
                                           bool quick) {
  auto machine = makeTargetMachine(nvptx(), chip);
  if (!machine)
    return machine.takeError();
  llvm::Module &module = *kernel.module;
  module.setTargetTriple(nvptx());
  module.setDataLayout((*machine)->createDataLayout());
  // LLVM makes a switch of comparisons of one value, and of a switch a table of labels:
  // an indirect branch.
  for (llvm::Function &function : module)
    function.addFnAttr("no-jump-tables", "true");
  if (multipliesByWarpgroups(chip))
    keepWarpgroupsTogether(module);
  optimize(module, **machine, quick);
  if (chipNumber(chip) >= 90)
    waitForEarlierLaunches(module);
  return emit(module, **machine, llvm::CodeGenFileType::AssemblyFile);
}

/// Adds the text of a chip's next kernel: all begin with the same three directives.
static void append(std::string &whole, StringRef text) {
  StringRef kernel = text.split(".address_size 64\n\n").second;
  assert(!kernel.empty() && "PTX must begin with its directives");
  whole += whole.empty() ? text : kernel;
}

namespace {

/// A kernel on its way to a chip's image: its text, or what LLVM refused.
struct Piece {
  OwnModule module;
  size_t image;
  std::string text, refused;
};

/// All of them, in the order of the text.
struct Pieces {
  std::vector<PTXImage> images;
  std::vector<Piece> all;
  bool quick;
};

} // namespace

/// Adds images, without text yet, of chips that take the same forms of kernels.
static llvm::Error addPieces(ModuleOp module, ArrayRef<std::string> chips,
                             bool warpgroups, bool onlyOther, Pieces &pieces) {
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
  SmallVector<gpu::GPUModuleOp> kernels =
      splitKernels(*copy->getOps<gpu::GPUModuleOp>().begin());
  for (const std::string &chip : chips) {
    pieces.images.push_back({chip, ""});
    for (gpu::GPUModuleOp kernel : kernels) {
      // Here, since MLIR's context is for one thread.
      OwnModule own = translateAlone(kernel);
      if (!own.module)
        return llvm::createStringError("translation to LLVM IR failed");
      pieces.all.push_back({std::move(own), pieces.images.size() - 1, "", ""});
    }
  }
  return llvm::Error::success();
}

static void makeText(void *context, uint64_t number) {
  auto &pieces = *static_cast<Pieces *>(context);
  Piece &piece = pieces.all[number];
  if (auto text = compile(std::move(piece.module),
                          pieces.images[piece.image].chip, pieces.quick))
    piece.text = std::move(*text);
  else
    piece.refused = llvm::toString(text.takeError());
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
  Pieces pieces{{}, {}, quick};
  if (llvm::Error error = addPieces(module, plain, /*warpgroups=*/false,
                                    /*onlyOther=*/false, pieces))
    return error;
  if (llvm::Error error = addPieces(module, together, /*warpgroups=*/true,
                                    /*onlyOther=*/others, pieces))
    return error;
  rt::runNumbered(pieces.all.size(),
                  llvm::hardware_concurrency().compute_thread_count(), &pieces,
                  makeText);
  for (const Piece &piece : pieces.all) {
    if (!piece.refused.empty())
      return llvm::createStringError(piece.refused);
    append(pieces.images[piece.image].text, piece.text);
  }
  return std::move(pieces.images);
}

llvm::Expected<std::string> kvc::emitPTX(ModuleOp module, StringRef chip,
                                         bool quick) {
  auto images = emitPTXImages(module, chip.str(), quick);
  if (!images)
    return images.takeError();
  return std::move(images->front().text);
}
