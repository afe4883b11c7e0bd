//===- Rope.cpp - rotary position embedding, with the scalings in use -----===//

#include "executor/model/Rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace kvc::rt;

static constexpr double turn = 2 * std::numbers::pi;

/// Llama 3.1: slow frequencies are divided, fast ones stay, between them a
/// blend by how often they turn within the original length.
static double scaleLlama3(double frequency, const RopeScaling &s) {
  double turns = s.originalPositions * frequency / turn;
  double stays = (turns - s.lowFrequency) / (s.highFrequency - s.lowFrequency);
  stays = std::clamp(stays, 0.0, 1.0);
  return frequency * (stays + (1 - stays) / s.factor);
}

/// YaRN (Peng et al. 2023, section 3.2): the blend is linear in the dimension.
class Yarn {
public:
  Yarn(uint32_t headDim, double theta, const RopeScaling &s) : s(s) {
    auto dimension = [&](double turns) {
      return headDim * std::log(s.originalPositions / (turns * turn)) /
             (2 * std::log(theta));
    };
    low = dimension(s.betaFast);
    high = dimension(s.betaSlow);
    if (s.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, double(headDim) - 1);
    if (low == high)
      high += 0.001;
  }
  double scale(double frequency, uint32_t i) const {
    double divided = std::clamp((i - low) / (high - low), 0.0, 1.0);
    return frequency * ((1 - divided) + divided / s.factor);
  }

private:
  const RopeScaling &s;
  double low, high; // dimensions between which the blend runs
};

Rope::Rope(uint32_t headDim, double theta, const RopeScaling &scaling)
    : magnitude(float(scaling.attentionFactor)) {
  Yarn yarn(headDim, theta, scaling);
  for (uint32_t i = 0; i < headDim / 2; ++i) {
    double frequency = std::pow(theta, -2.0 * i / headDim);
    switch (scaling.kind) {
    case RopeScaling::Kind::None:
      break;
    case RopeScaling::Kind::Linear:
      frequency /= scaling.factor;
      break;
    case RopeScaling::Kind::Llama3:
      frequency = scaleLlama3(frequency, scaling);
      break;
    case RopeScaling::Kind::Yarn:
      frequency = yarn.scale(frequency, i);
      break;
    }
    frequencies.push_back(float(frequency));
  }
}

std::pair<float, float> Rope::turn(size_t i, uint32_t position) const {
  // The angle is rounded to fp32 as the reference framework's is.
  float angle = float(position) * frequencies[i];
  return {std::cos(angle) * magnitude, std::sin(angle) * magnitude};
}

std::vector<float> Rope::angles(uint32_t begin, uint32_t end) const {
  std::vector<float> result;
  result.reserve(size_t(end - begin) * frequencies.size() * 2);
  for (uint32_t position = begin; position < end; ++position)
    for (size_t i = 0; i < frequencies.size(); ++i) {
      auto [cosine, sine] = turn(i, position);
      result.insert(result.end(), {cosine, sine});
    }
  return result;
}

void Rope::rotate(float *vector, uint32_t position) const {
  size_t half = frequencies.size();
  for (size_t i = 0; i < half; ++i) {
    auto [c, s] = turn(i, position);
    float a = vector[i], b = vector[i + half];
    vector[i] = a * c - b * s;
    vector[i + half] = b * c + a * s;
  }
}
