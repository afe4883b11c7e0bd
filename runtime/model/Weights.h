//===- Weights.h - the tensors of a model, as fp32 ------------------------===//

#ifndef KVC_RUNTIME_MODEL_WEIGHTS_H
#define KVC_RUNTIME_MODEL_WEIGHTS_H

#include "runtime/model/Config.h"

#include <string>
#include <vector>

namespace kvc::rt {

/// y = W x + b; matrices are [out, in] as Hugging Face stores them.
struct Linear {
  std::vector<float> weight; // [out, in]
  std::vector<float> bias;   // [out]; empty where there is none
};

struct LayerWeights {
  std::vector<float> attentionNorm;      // [hidden]
  Linear q;                              // [Hq * d, hidden]
  Linear k, v;                           // [Hkv * d, hidden]
  std::vector<float> queryNorm, keyNorm; // [d]; empty where there is none
  Linear o;                              // [hidden, Hq * d]
  std::vector<float> mlpNorm;            // [hidden]
  Linear gate, up;                       // [intermediate, hidden]
  Linear down;                           // [hidden, intermediate]
};

struct Weights {
  Linear embedding; // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::vector<float> norm; // [hidden]
  Linear head;             // [vocab, hidden]; empty if tied

  /// Reads DIR/model.safetensors, or the files that
  /// model.safetensors.index.json names. Throws Failure that names a missing or
  /// misshapen tensor.
  static Weights read(const std::string &dir, const Config &config);
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_MODEL_WEIGHTS_H
