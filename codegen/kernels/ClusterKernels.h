//===- ClusterKernels.h - several kernels in one launch of clusters -------===//
//
// Kernels of kind spans that follow each other are short: a launch costs as much as what
// it does. What a block of one reads of the one in front, blocks of the same head have
// written. From sm_90 on blocks can be a cluster, whose blocks run at the same time and
// wait for each other: where a head's blocks are one, a single launch does the work of all
// those kernels, one behind the other.
//
// A cluster kernel is a gpu.func beside those that it runs, made of their bodies. Its
// grid is (the most blocks that one of them has, Hkv, batch), a cluster the blocks along
// x; which kernels it stands for the manifest says. Whether it is launched in their place
// the runtime decides: not every device has clusters of so many blocks.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_CLUSTERKERNELS_H
#define KVC_CODEGEN_KERNELS_CLUSTERKERNELS_H

#include "codegen/kernels/Kernels.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace kvc {

/// On a gpu.func: it is a cluster kernel. PTX for earlier chips leaves it out.
inline constexpr const char *clustersAttr = "kvc.clusters";

/// Runs of two or more kernels of a policy, in order, that a cluster kernel can stand for:
/// of kind spans, where no block asks for what blocks of another head have stored in the
/// same run, and none carries a number from layer to layer.
llvm::SmallVector<llvm::SmallVector<KernelOp>> clusterRuns(PolicyOp policy);

/// Makes a cluster kernel of built ones, at the builder's place. They share one block's
/// shared memory, as they never need it at the same time. Null where they have too many
/// threads or too much memory for that.
mlir::gpu::GPUFuncOp
buildClusterKernel(mlir::ImplicitLocOpBuilder &builder, llvm::StringRef name,
                   llvm::ArrayRef<mlir::gpu::GPUFuncOp> parts);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_CLUSTERKERNELS_H
