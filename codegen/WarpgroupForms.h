//===- WarpgroupForms.h - kernels that GPUs with warpgroups have ----------===//
//
// A kernel may have a second form for sm_90a, which multiplies by warpgroups or has its blocks
// in clusters: a gpu.func beside its own, launched with the same grid, that reads and writes
// the same. The manifest knows of one kernel, and where the form's blocks have other threads
// how many (`warpgroup_block`); kvc-choose-forms keeps one of the two.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_WARPGROUPFORMS_H
#define KVC_CODEGEN_WARPGROUPFORMS_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace kvc {

/// On a gpu.func: the name of the kernel that it is the second form of.
inline constexpr const char *warpgroupsOfAttr = "kvc.warpgroups_of";

/// On the gpu.func that it is the second form of: threads of a block of that one, i64, where
/// they are others.
inline constexpr const char *warpgroupBlockAttr = "kvc.warpgroup_block";

/// The one chip that has them: no later one runs its PTX.
inline bool multipliesByWarpgroups(llvm::StringRef chip) {
  return chip == "sm_90a";
}

inline bool hasWarpgroupForms(mlir::gpu::GPUModuleOp module) {
  return llvm::any_of(module.getOps<mlir::gpu::GPUFuncOp>(),
                      [](mlir::gpu::GPUFuncOp func) {
                        return func->hasAttr(warpgroupsOfAttr);
                      });
}

} // namespace kvc

#endif // KVC_CODEGEN_WARPGROUPFORMS_H
