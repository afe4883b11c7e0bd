//===- DependentLaunch.cpp ------------------------------------------------===//

#include "codegen/emit/DependentLaunch.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/NVPTXAddrSpace.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

/// True unless an instruction certainly leaves global memory alone.
static bool mayUseGlobalMemory(const llvm::Instruction &instruction) {
  if (!instruction.mayReadOrWriteMemory())
    return false;
  const llvm::Value *address = llvm::getLoadStorePointerOperand(&instruction);
  return !address || address->getType()->getPointerAddressSpace() !=
                         llvm::NVPTXAS::ADDRESS_SPACE_SHARED;
}

static void waitIn(llvm::Function &kernel) {
  llvm::BasicBlock &entry = kernel.getEntryBlock();
  auto first = llvm::find_if(entry, mayUseGlobalMemory);
  if (first == entry.end())
    first = entry.getTerminator()->getIterator();
  // A block of its own: the backend moves accesses within blocks, those that it takes
  // for constant past anything.
  llvm::SplitBlock(&entry, first);
  llvm::IRBuilder<> builder(entry.getTerminator());
  llvm::Type *none = builder.getVoidTy();
  for (const char *text :
       {"griddepcontrol.wait;", "griddepcontrol.launch_dependents;"})
    builder.CreateCall(
        llvm::InlineAsm::get(llvm::FunctionType::get(none, false), text,
                             "~{memory}", /*hasSideEffects=*/true));
}

void kvc::waitForEarlierLaunches(llvm::Module &module) {
  for (llvm::Function &function : module)
    if (function.getCallingConv() == llvm::CallingConv::PTX_Kernel &&
        !function.hasFnAttribute(startsLate))
      waitIn(function);
}
