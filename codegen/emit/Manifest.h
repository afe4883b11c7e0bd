//===- Manifest.h - what the runtime must know about the kernels ----------===//

#ifndef KVC_CODEGEN_EMIT_MANIFEST_H
#define KVC_CODEGEN_EMIT_MANIFEST_H

#include "codegen/Shape.h"
#include "dialect/KVCDialect.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace kvc {

/// Raised when a field changes its meaning or may not be passed over; the runtime refuses
/// others.
constexpr int manifestFormat = 2, formatWithLaunchMemory = 3,
              formatWithWarpgroupBlock = 4;

/// Name of the attribute of the gpu.module that holds the manifest's text.
inline constexpr const char *manifestAttr = "kvc.manifest";

/// Name of a kernel of one variant: <policy>_<kernel>_<shape>.
std::string kernelName(PolicyOp policy, KernelOp kernel, const Shape &shape);
/// Of its form for short calls, where hasFormOfShortCalls.
std::string shortName(PolicyOp policy, KernelOp kernel, const Shape &shape);
/// Of the one behind a kernel of which placesMerged(kernel, shape) is true.
std::string placeName(PolicyOp policy, const Shape &shape);

/// The manifest of a fused policy whose kernels are built in `module`. JSON;
/// docs/manifest.md has the fields.
std::string writeManifest(PolicyOp policy, llvm::ArrayRef<Shape> shapes,
                          mlir::gpu::GPUModuleOp module);

} // namespace kvc

#endif // KVC_CODEGEN_EMIT_MANIFEST_H
