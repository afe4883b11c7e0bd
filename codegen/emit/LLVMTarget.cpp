//===- LLVMTarget.cpp - what both emitters ask of LLVM --------------------===//

#include "codegen/emit/LLVMTarget.h"

#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FormatVariadic.h"

#include <utility>

using namespace llvm;

Expected<std::unique_ptr<TargetMachine>>
kvc::makeTargetMachine(const Triple &triple, StringRef cpu) {
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return createStringError(message);
  // A machine for an unknown processor would say so itself, twice.
  std::unique_ptr<MCSubtargetInfo> any(
      target->createMCSubtargetInfo(triple, "", ""));
  if (!any->isCPUStringValid(cpu))
    return createStringError("unknown processor '" + cpu + "' for " +
                             triple.str());
  if (triple.getArch() == Triple::x86_64) {
    std::unique_ptr<MCSubtargetInfo> own(
        target->createMCSubtargetInfo(triple, cpu, ""));
    if (!own->checkFeatures("+64bit"))
      return createStringError("processor '" + cpu + "' has no 64-bit code");
  }
  TargetOptions options;
  CodeGenOptLevel level =
      triple.isNVPTX() ? CodeGenOptLevel::Aggressive : CodeGenOptLevel::Default;
  return std::unique_ptr<TargetMachine>(target->createTargetMachine(
      triple, cpu, "", options, Reloc::PIC_, std::nullopt, level));
}

/// True where a value of 16 bits goes from block to block. x86 widens it on the
/// way and narrows it by a call that nobody links.
static bool passesOnBF16(const Module &module) {
  for (const Function &function : module)
    for (const BasicBlock &block : function)
      for (const Instruction &op : block)
        if (op.getType()->getScalarType()->isBFloatTy() &&
            (isa<PHINode>(op) || op.isUsedOutsideOfBlock(&block)))
          return true;
  return false;
}

/// Says of assembly without side effects that it returns and looks at no memory, which
/// MLIR has no words for: else nothing could be taken out of a loop in front of it.
static void markPure(Module &module) {
  for (Function &function : module)
    for (Instruction &op : instructions(function))
      if (auto *call = dyn_cast<CallInst>(&op);
          call && call->isInlineAsm() &&
          !cast<InlineAsm>(call->getCalledOperand())->hasSideEffects()) {
        call->setDoesNotThrow();
        call->setDoesNotAccessMemory();
        call->addFnAttr(Attribute::WillReturn);
        call->addFnAttr(Attribute::Speculatable);
      }
}

namespace {

/// For PTX, which its assembler optimises once more, and knows the registers: what
/// LLVM's own pipelines do beyond this costs compile time and registers
/// (docs/decisions.md). Values that are the same become one and forms become simple,
/// before and after what loops do not change is taken out of them; alignment, for
/// wide accesses; shared memory that nobody reads is gone at the end.
constexpr const char *ptxPasses =
    "ipsccp,"
    "function(nvvm-intr-range,sroa,early-cse<memssa>,"
    "instcombine<no-verify-fixpoint>,simplifycfg,"
    "reassociate,loop-mssa(loop-rotate,licm),loop(indvars),"
    "early-cse,instcombine<no-verify-fixpoint>,simplifycfg,"
    "infer-alignment,adce),"
    "globalopt,globaldce";

/// For the host, where kernels run in an emulation that more passes make no faster,
/// and for PTX that is run once. They make the backend's work short: memory into
/// registers, dead code, one of each.
constexpr const char *fewPasses = "function(sroa,early-cse,simplifycfg,dce)";

/// Leaves out of the backend for PTX
/// - what makes a register of each address of a loop, and what prepares loops for it: the
///   assembler knows how many registers there are;
/// - what looks for equal values a second and third time, and adds sums up in another
///   order: the assembler makes the same code (docs/decisions.md).
class PTXPassGate : public OptPassGate {
public:
  bool isEnabled() const override { return true; }
  bool shouldRunPass(StringRef name, StringRef) const override {
    if (name == "slsr")
      behindReduction = true;
    if (name ==
        "gvn") // straight behind it, where new values are equal to others
      return std::exchange(behindReduction, false);
    return !is_contained({"Loop Strength Reduction",
                          "Canonicalize Freeze Instructions in Loops",
                          "nary-reassociate", "early-cse"},
                         name);
  }

private:
  mutable bool behindReduction = false;
};

} // namespace

void kvc::optimize(Module &module, TargetMachine &machine, bool quick) {
  bool ptx = machine.getTargetTriple().isNVPTX();
  if (ptx) {
    static thread_local PTXPassGate gate;
    module.getContext().setOptPassGate(gate);
  }
  if (quick)
    machine.setOptLevel(CodeGenOptLevel::None);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopUnrolling =
      tuning.LoopInterleaving = false;
  PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  markPure(module);
  ModulePassManager passes;
  cantFail(
      builder.parsePassPipeline(passes, ptx && !quick ? ptxPasses : fewPasses));
  passes.run(module, modules);
  if (!ptx && passesOnBF16(module))
    builder.buildPerModuleDefaultPipeline(OptimizationLevel::O1)
        .run(module, modules);
}

/// The first thing that LLVM refuses: a kernel that needs more stack than its
/// attribute allows, or an error.
static void noteRefusal(const DiagnosticInfo *info, void *text) {
  auto &first = *static_cast<std::string *>(text);
  if (!first.empty())
    return;
  if (auto *stack = dyn_cast<DiagnosticInfoStackSize>(info)) {
    first = formatv("host kernel '{0}' must need at most {1} bytes of stack, "
                    "got {2}",
                    stack->getFunction().getName(), stack->getStackLimit(),
                    stack->getStackSize());
  } else if (info->getSeverity() == DS_Error) {
    raw_string_ostream stream(first);
    DiagnosticPrinterRawOStream printer(stream);
    info->print(printer);
  }
}

Expected<std::string> kvc::emit(Module &module, TargetMachine &machine,
                                CodeGenFileType type) {
  SmallString<0> text;
  raw_svector_ostream stream(text);
  legacy::PassManager manager;
  if (machine.addPassesToEmitFile(manager, stream, nullptr, type))
    return createStringError("the target cannot emit this kind of file");
  std::string refused;
  module.getContext().setDiagnosticHandlerCallBack(noteRefusal, &refused);
  manager.run(module);
  module.getContext().setDiagnosticHandlerCallBack(nullptr);
  if (!refused.empty())
    return createStringError(refused);
  return text.str().str();
}
