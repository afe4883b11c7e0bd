//===- Transformer.h - the forward pass, in the order of the papers -------===//
//
// Llama and its relatives: RMS norms, RoPE, grouped queries, SwiGLU; with
// biases and normalised queries and keys where the family has them. CPU, fp32;
// matrix products by a BLAS.
//
// One pass serves prefill, chunks of a prefill, questions and decoding: tokens
// see a cache, all of it, and each other, causally. A policy meets the model in
// one place: the hook behind each layer's attention.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_MODEL_TRANSFORMER_H
#define KVC_EXECUTOR_MODEL_TRANSFORMER_H

#include "executor/model/RaggedCache.h"
#include "executor/model/Weights.h"

#include <functional>

namespace kvc::rt {

/// What a layer's attention leaves behind, of the tokens that were run. fp32,
/// row-major.
struct LayerActivations {
  uint32_t tokens;         // T
  std::vector<float> q;    // [Hq, T, d] after RoPE
  std::vector<float> k;    // [Hkv, T, d] after RoPE
  std::vector<float> kRaw; // [Hkv, T, d] before RoPE
  std::vector<float> v;    // [Hkv, T, d]
  /// [Hq, T] natural, over all that a query has seen, cache included.
  std::vector<float> lse;
};

class Transformer {
public:
  /// Throws Failure.
  explicit Transformer(const std::string &dir);

  using LayerHook = std::function<void(uint32_t layer, LayerActivations &)>;
  /// Runs tokens at positions from `position` on against `cache` (one per
  /// layer). `hook` is called once per layer, behind its attention, and must
  /// put into the cache what is to stay. Returns the last layer's output
  /// [T, hidden].
  std::vector<float> run(const std::vector<uint32_t> &tokens, uint32_t position,
                         const std::vector<RaggedCache> &cache,
                         const LayerHook &hook) const;
  /// Logits [rows, vocab] of `rows` rows of run's result.
  std::vector<float> logits(const float *output, uint32_t rows = 1) const;

  const Config config;
  const Weights weights;
  const Rope rope;

private:
  LayerActivations project(const LayerWeights &w, const std::vector<float> &x,
                           uint32_t tokens, uint32_t position) const;
  std::vector<float> attend(LayerActivations &layer,
                            const RaggedCache &cache) const;
  void addMlp(const LayerWeights &w, std::vector<float> &x) const;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_MODEL_TRANSFORMER_H
