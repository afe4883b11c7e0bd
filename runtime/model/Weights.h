//===- Weights.h - the tensors of a model, as fp32 ------------------------===//

#ifndef KVC_RUNTIME_MODEL_WEIGHTS_H
#define KVC_RUNTIME_MODEL_WEIGHTS_H

#include "runtime/model/Config.h"

#include <string>
#include <vector>

namespace kvc::rt {

/// Matrices are [out, in] as Hugging Face stores them.
struct LayerWeights {
  std::vector<float> attentionNorm; // [hidden]
  std::vector<float> q;             // [Hq * d, hidden]
  std::vector<float> k, v;          // [Hkv * d, hidden]
  std::vector<float> o;             // [hidden, Hq * d]
  std::vector<float> mlpNorm;       // [hidden]
  std::vector<float> gate, up;      // [intermediate, hidden]
  std::vector<float> down;          // [hidden, intermediate]
};

struct Weights {
  std::vector<float> embedding; // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::vector<float> norm; // [hidden]
  std::vector<float> head; // [vocab, hidden]; empty if tied

  /// Reads DIR/model.safetensors, or the files that
  /// model.safetensors.index.json names. Throws Failure that names a missing or
  /// misshapen tensor.
  static Weights read(const std::string &dir, const Config &config);
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_MODEL_WEIGHTS_H
