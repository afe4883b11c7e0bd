//===- EmitPTX.h - level gpu to PTX text ----------------------------------===//

#ifndef KVC_CODEGEN_EMIT_EMITPTX_H
#define KVC_CODEGEN_EMIT_EMITPTX_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace kvc {

struct PTXImage {
  std::string chip, text;
};

/// PTX of the only gpu.module of `module` (level gpu, left unchanged) for chips, "sm_80"
/// to "sm_90" and what the NVPTX backend knows above, in the making: MLIR's part is done
/// when `start` returns, once for all chips that take the same forms of kernels; LLVM's
/// goes on beside the caller, each kernel by itself on one of as many threads as there
/// are processors. The text depends on none of that.
class PTXImages {
public:
  /// `quick`: hardly optimised, for those who only look what is in it. An image of sm_90a
  /// beside one that its GPUs run as well has only the kernels of which there is another
  /// form (WarpgroupForms.h), and where there is none, there is no such image.
  static llvm::Expected<PTXImages> start(mlir::ModuleOp module,
                                         llvm::ArrayRef<std::string> chips,
                                         bool quick = false);
  PTXImages(PTXImages &&);
  ~PTXImages();

  /// The images in the order of chips, those of sm_90a last. Once.
  llvm::Expected<std::vector<PTXImage>> wait();

private:
  struct Making;
  explicit PTXImages(std::unique_ptr<Making> making);

  std::unique_ptr<Making> making;
};

/// The text for one chip.
llvm::Expected<std::string> emitPTX(mlir::ModuleOp module, llvm::StringRef chip,
                                    bool quick = false);

/// True if the backend knows the chip.
bool isKnownChip(llvm::StringRef chip);

} // namespace kvc

#endif // KVC_CODEGEN_EMIT_EMITPTX_H
