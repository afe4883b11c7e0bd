//===- GpuChunkedPrompt.h - a prompt read in chunks, on a GPU -------------===//

#ifndef KVC_EXECUTOR_CUDA_GPUCHUNKEDPROMPT_H
#define KVC_EXECUTOR_CUDA_GPUCHUNKEDPROMPT_H

#include "executor/cuda/GpuCache.h"

namespace kvc::gpu {

class GpuChunkedPrompt : public rt::ChunkedPrompt {
public:
  GpuChunkedPrompt(Queue &queue, const rt::Config &config,
                   const rt::Manifest &manifest, uint32_t tokens);

  void add(uint32_t layer, const rt::Activations &activations) override;
  std::unique_ptr<rt::Activations> take(uint32_t layer,
                                        rt::Cache &cache) override;

private:
  Queue &queue;
  const rt::Config &config;
  const uint32_t tokens, queries; // of the prompt; the last ones that are read
  const bool rawKeys;
  struct Layer {
    Buffer q, lse, kRaw;
    uint32_t seen = 0; // tokens
  };
  std::vector<Layer> layers;
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_GPUCHUNKEDPROMPT_H
