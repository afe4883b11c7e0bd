//===- EmitPTX.h - level gpu to PTX text ----------------------------------===//

#ifndef KVC_CODEGEN_EMIT_EMITPTX_H
#define KVC_CODEGEN_EMIT_EMITPTX_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace kvc {

/// PTX of the only gpu.module of `module` (level gpu, left unchanged) for one
/// chip: "sm_80" to "sm_90" and what the NVPTX backend knows above. `quick`:
/// hardly optimised, for those who only look what is in it.
llvm::Expected<std::string> emitPTX(mlir::ModuleOp module, llvm::StringRef chip,
                                    bool quick = false);
struct PTXImage {
  std::string chip, text;
};
/// The same for several chips: what MLIR does is done once for all that take the same
/// forms of kernels, what LLVM does for each kernel by itself, on as many threads as there
/// are processors, on which the text does not depend; where fewer can be had, by these. An
/// image of sm_90a beside one that its GPUs run as well has only the
/// kernels of which there is another form (WarpgroupForms.h), and where there is none,
/// there is no such image.
llvm::Expected<std::vector<PTXImage>>
emitPTXImages(mlir::ModuleOp module, llvm::ArrayRef<std::string> chips,
              bool quick = false);

/// Fails, with a line for the user, where kernels cannot be compiled for it.
llvm::Error checkChip(llvm::StringRef chip);

} // namespace kvc

#endif // KVC_CODEGEN_EMIT_EMITPTX_H
