//===- Rope.h - rotary position embedding, with the scalings in use -------===//

#ifndef KVC_EXECUTOR_MODEL_ROPE_H
#define KVC_EXECUTOR_MODEL_ROPE_H

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kvc::rt {

/// How frequencies are changed for prompts longer than those of pre-training.
struct RopeScaling {
  enum class Kind { None, Linear, Llama3, Yarn };
  Kind kind = Kind::None;
  double factor = 1;
  double originalPositions = 0;               // of pre-training
  double lowFrequency = 1, highFrequency = 4; // llama3, in turns per original
  double betaFast = 32, betaSlow = 1;         // yarn, in turns per original
  double attentionFactor = 1;                 // yarn: on cosine and sine
  bool truncate = true;                       // yarn: whole dimensions
};

/// Su et al. 2021; halves are rotated as in Hugging Face: component i goes with
/// component i + d / 2.
class Rope {
public:
  Rope(uint32_t headDim, double theta, const RopeScaling &scaling);

  /// Rotates one vector [d] in place.
  void rotate(float *vector, uint32_t position) const;
  /// Cosine and sine of every angle of positions `begin` to `end` - 1:
  /// [end - begin, d / 2, 2].
  std::vector<float> angles(uint32_t begin, uint32_t end) const;

private:
  std::vector<float> frequencies; // [d / 2], radians per position
  float magnitude;

  /// Cosine and sine.
  std::pair<float, float> turn(size_t i, uint32_t position) const;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_MODEL_ROPE_H
