//===- Config.h - config.json of a Hugging Face model ---------------------===//

#ifndef KVC_EXECUTOR_MODEL_CONFIG_H
#define KVC_EXECUTOR_MODEL_CONFIG_H

#include "kvc/kvc.h"
#include "executor/model/Rope.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvc::rt {

struct Config {
  std::string architecture; // "LlamaForCausalLM"
  uint32_t layers, hidden, intermediate, vocab;
  uint32_t qHeads, kvHeads, headDim;
  /// A model with a sliding window is used within its window only, where it
  /// makes no difference.
  uint32_t maxPositions;
  double ropeTheta, normEps;
  RopeScaling ropeScaling;
  bool tiedEmbeddings;
  bool qkvBias, oBias, mlpBias;
  bool qkNorm;     // queries and keys are normalised per head, before RoPE
  kvc_dtype dtype; // of the stored weights
  std::vector<uint32_t> eos;

  /// Reads DIR/config.json and, for the end tokens, generation_config.json if
  /// there is one. Throws Failure that names file, field and value; an
  /// architecture or a feature that is not implemented is an error.
  static Config read(const std::string &dir);
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_MODEL_CONFIG_H
