//===- Pipelines.h - the order of the lowering passes ---------------------===//

#ifndef KVC_CODEGEN_PIPELINES_H
#define KVC_CODEGEN_PIPELINES_H

#include "codegen/Shape.h"

#include "mlir/Pass/PassManager.h"

#include <optional>

namespace kvc {

/// Level fused to level gpu. `listsAbove`: of convert-kvc-to-gpu, if not its default.
void buildGPUPipeline(mlir::OpPassManager &manager,
                      llvm::ArrayRef<Shape> shapes,
                      std::optional<int64_t> listsAbove = std::nullopt);
/// Level gpu to NVVM inside the gpu.module; options as of kvc-choose-forms.
void buildNVVMPipeline(mlir::OpPassManager &manager, bool warpgroups = false,
                       bool onlyOther = false);
/// Level gpu to the LLVM dialect, for the machine that runs the compiler: functions for a
/// thread and, if `warps`, for a warp.
void buildHostPipeline(mlir::OpPassManager &manager, bool warps);

/// Registers --kvc-nvvm-pipeline and --kvc-host-pipeline.
void registerCodegenPipelines();

} // namespace kvc

#endif // KVC_CODEGEN_PIPELINES_H
