//===- GpuCompressor.h - a policy beside a model on a GPU -----------------===//
//
// A layer is scored, selected and compacted into memory that is large enough
// for all of it, without asking the GPU anything. How much was kept is read
// back while the GPU is busy with the next layer; only then the rows move to
// where just they have room. So the GPU never waits for the host, and a cache
// takes what its rows take.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_GPUCOMPRESSOR_H
#define KVC_EXECUTOR_CUDA_GPUCOMPRESSOR_H

#include "executor/cuda/GpuCache.h"
#include "executor/cuda/GpuPolicy.h"

namespace kvc::gpu {

class GpuCompressor : public rt::Compressor {
public:
  GpuCompressor(const rt::PolicyOptions &options, Queue &queue,
                const rt::Config &config, const GpuWeights &weights);

  void begin(uint32_t tokens, uint32_t budget) override;
  void compress(const rt::Activations &activations, uint32_t position,
                rt::Cache &cache, rt::KeptSequence *kept) override;
  void finish() override;

  const rt::Manifest &manifest() const override {
    return policy.module.manifest;
  }
  kvc_dtype dtype() const override { return queue.dtype; }
  bool nanScores() const override { return policy.nan; }
  double seconds() const override { return policy.elapsed; }

private:
  Queue &queue;
  const rt::Config &config;
  GpuPolicy policy;

  /// What a layer is compressed into, for prompts of up to the plan's tokens.
  Buffer indices, kOut, vOut;

  /// The layer whose rows still lie in kOut and vOut.
  struct Pending {
    GpuCache *cache;
    uint32_t layer, position;
  };
  std::optional<Pending> pending;

  kvc_layer_args arguments(const GpuActivations &from);
  void settle();
  void tell(rt::KeptSequence &kept) const;
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_GPUCOMPRESSOR_H
