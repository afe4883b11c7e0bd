//===- GpuEngine.h - a model on an NVIDIA GPU -----------------------------===//
//
// The forward pass of model/Transformer in the model's own type: products by
// cuBLASLt, everything else by the kernels of gpu/kernels. Weights, activations
// and caches stay on the GPU; a run sends tokens and brings back logits.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_GPUENGINE_H
#define KVC_EXECUTOR_CUDA_GPUENGINE_H

#include "executor/engine/Engine.h"

namespace kvc::gpu {

/// Throws Failure, also for a head dimension above 128.
std::unique_ptr<rt::Engine> makeGpuEngine(const std::string &modelDir,
                                          int device);

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_GPUENGINE_H
