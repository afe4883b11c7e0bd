//===- HostProcessors.h - warps for several processors in one artefact ----===//

#ifndef KVC_CODEGEN_EMIT_HOSTPROCESSORS_H
#define KVC_CODEGEN_EMIT_HOSTPROCESSORS_H

#include "kvc/artifact.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Module.h"

namespace kvc {

/// One that a runtime can tell from others, as LLVM names it.
struct HostProcessor {
  llvm::StringLiteral name, suffix;
  kvc_host_processor needs;
};

/// Of x86 that nobody has named: warps are for its third level, where vectors have
/// eight lanes and a multiply-add is an instruction.
extern const HostProcessor usualProcessor;

/// One that may be asked for beside it; null: `name` is none.
const HostProcessor *findProcessor(llvm::StringRef name);

/// Gives each of `functions`, which call one another, a copy for `processor`, named
/// with its suffix.
void copyFor(const HostProcessor &processor, llvm::Module &module,
             llvm::ArrayRef<llvm::Function *> functions);

} // namespace kvc

#endif // KVC_CODEGEN_EMIT_HOSTPROCESSORS_H
