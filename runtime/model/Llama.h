//===- Llama.h - the forward pass, in the order of the paper --------------===//
//
// CPU, fp32; matrix products by a BLAS. A policy meets the model in one place:
// the hook that prefill calls after each layer's attention.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_MODEL_LLAMA_H
#define KVC_RUNTIME_MODEL_LLAMA_H

#include "runtime/model/RaggedCache.h"
#include "runtime/model/Weights.h"

#include <functional>

namespace kvc::rt {

/// What a layer's attention leaves behind. Row-major, fp32.
struct LayerActivations {
  uint32_t tokens;
  std::vector<float> q;    // [Hq, T, d] after RoPE
  std::vector<float> k;    // [Hkv, T, d] after RoPE
  std::vector<float> kRaw; // [Hkv, T, d] before RoPE
  std::vector<float> v;    // [Hkv, T, d]
  std::vector<float> lse;  // [Hq, T] natural
};

class Llama {
public:
  /// Throws Failure.
  explicit Llama(const std::string &dir);

  using LayerHook =
      std::function<void(uint32_t layer, const LayerActivations &)>;
  /// Runs a prompt from position 0, full causal attention, and calls `hook`
  /// once per layer, which must take what it wants to keep. Returns the logits
  /// of the last position.
  std::vector<float> prefill(const std::vector<uint32_t> &tokens,
                             const LayerHook &hook) const;
  /// Runs one token at its true position against the cache, appending to it.
  std::vector<float> decode(uint32_t token, uint32_t position,
                            std::vector<RaggedCache> &cache) const;

  const Config config;
  const Weights weights;

private:
  void rotate(float *vector, uint32_t position) const;
  void attendPrompt(LayerActivations &layer, std::vector<float> &out) const;
  void attendCache(const float *q, const RaggedCache &cache, float *out) const;
  void mlp(const LayerWeights &w, std::vector<float> &x, uint32_t rows) const;
  std::vector<float> logits(const float *x) const;
  std::vector<double> inverseFrequencies; // [d / 2]
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_MODEL_LLAMA_H
