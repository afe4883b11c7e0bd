//===- GpuActivations.h - a layer's queries, keys and values, on a GPU ----===//

#ifndef KVC_EXECUTOR_CUDA_GPUACTIVATIONS_H
#define KVC_EXECUTOR_CUDA_GPUACTIVATIONS_H

#include "executor/engine/Engine.h"
#include "executor/cuda/Queue.h"

namespace kvc::gpu {

/// What a layer's attention leaves behind, in the queue's type.
class GpuActivations : public rt::Activations {
public:
  GpuActivations(Queue &queue, const rt::Config &config, uint32_t tokens)
      : Activations(tokens), queue(queue), config(config), queries(tokens),
        headRows(tokens) {}

  rt::LayerActivations onHost() const override;
  void forgetLse() override { lse = {}; }

  Queue &queue;
  const rt::Config &config;
  Buffer q;    // [Hq, queries, d], the last queries
  Buffer lse;  // [Hq, queries], natural; or empty
  Buffer k, v; // [Hkv, headRows, d], of which the first are the tokens
  Buffer kRaw; // [Hkv, tokens, d]; or empty
  uint32_t queries;
  uint32_t headRows;
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_GPUACTIVATIONS_H
