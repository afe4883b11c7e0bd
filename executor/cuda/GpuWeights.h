//===- GpuWeights.h - a model's tensors in a GPU's memory -----------------===//

#ifndef KVC_EXECUTOR_CUDA_GPUWEIGHTS_H
#define KVC_EXECUTOR_CUDA_GPUWEIGHTS_H

#include "executor/cuda/Queue.h"
#include "executor/model/Weights.h"

namespace kvc::gpu {

/// Matrices in the queue's type, norms and biases in fp32. What is multiplied
/// with the same input is one matrix.
struct GpuLayer {
  Buffer attentionNorm, queryNorm, keyNorm, mlpNorm;
  rt::LinearOf<Buffer> qkv;    // [(Hq + 2 * Hkv) * d, hidden]
  rt::LinearOf<Buffer> o;      // [hidden, Hq * d]
  rt::LinearOf<Buffer> gateUp; // [2 * intermediate, hidden]
  rt::LinearOf<Buffer> down;   // [hidden, intermediate]
};

struct GpuWeights {
  rt::OuterWeightsOf<Buffer> outer;
  std::vector<GpuLayer> layers;

  const Buffer &head() const {
    return outer.head ? outer.head : outer.embedding;
  }

  /// Reads a model directory, a tensor at a time. Throws Failure.
  GpuWeights(Queue &queue, const std::string &dir, const rt::Config &config);
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_GPUWEIGHTS_H
