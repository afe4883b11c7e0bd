//===- LLVMTarget.h - what both emitters ask of LLVM ----------------------===//

#ifndef KVC_CODEGEN_EMIT_LLVMTARGET_H
#define KVC_CODEGEN_EMIT_LLVMTARGET_H

#include "llvm/IR/Module.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>

namespace kvc {

/// A target machine: -O3 for PTX, -O2 for the host. An unknown triple or
/// processor is an error.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
makeTargetMachine(const llvm::Triple &triple, llvm::StringRef cpu);

/// Runs a few passes of LLVM, other ones for PTX than for the host, and says which
/// of its own the backend leaves out. `quick` is for those who compile many policies
/// and run each once: the same IR, with little done to it by the backend too.
void optimize(llvm::Module &module, llvm::TargetMachine &machine,
              bool quick = false);

/// Text or object file. A function with the attribute warn-stack-size that needs
/// more stack is an error, as what LLVM reports as one.
llvm::Expected<std::string> emit(llvm::Module &module,
                                 llvm::TargetMachine &machine,
                                 llvm::CodeGenFileType type);

} // namespace kvc

#endif // KVC_CODEGEN_EMIT_LLVMTARGET_H
