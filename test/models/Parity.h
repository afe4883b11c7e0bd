//===- Parity.h - an engine against the reference framework ---------------===//

#ifndef KVC_TEST_MODELS_PARITY_H
#define KVC_TEST_MODELS_PARITY_H

#include "executor/session/OpenEngine.h"
#include "executor/io/Safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace kvc::rt {

/// test/models, wherever the test was carried to.
inline std::string fixtureDir() {
  const char *dir = std::getenv("KVC_FIXTURES");
  return dir ? dir : KVC_FIXTURES;
}

/// Names in a folder of it.
inline std::vector<std::string> fixtures(const std::string &kind) {
  std::vector<std::string> names;
  for (const auto &entry :
       std::filesystem::directory_iterator(fixtureDir() + "/" + kind))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string
fixtureName(const testing::TestParamInfo<std::string> &info) {
  return info.param;
}

/// A tiny random model, tokens, and the logits that test/models/make.py got.
class ModelParity : public testing::TestWithParam<std::string> {
public:
  void open(const std::string &target) {
    std::string dir = fixtureDir() + "/models/" + GetParam();
    engine = makeEngine(dir, target);
    SafetensorsFile file(dir + "/expected.safetensors");
    const TensorView &ids = file.at("tokens"), &values = file.at("logits");
    tokens.resize(ids.elements());
    std::memcpy(tokens.data(), ids.data, ids.bytes);
    want.resize(values.elements());
    std::memcpy(want.data(), values.data, values.bytes);
  }
  /// The logits of all tokens, read in pieces of `step`.
  std::vector<float> logits(size_t step) const {
    auto cache = engine->makeCache(engine->dtype());
    std::vector<float> all;
    for (size_t first = 0; first < tokens.size(); first += step) {
      std::vector<uint32_t> piece(
          tokens.begin() + ptrdiff_t(first),
          tokens.begin() + ptrdiff_t(std::min(tokens.size(), first + step)));
      auto at = uint32_t(first);
      auto rows = engine->run(
          piece, at, *cache,
          [&](uint32_t l, Activations &layer) { cache->append(l, layer, at); },
          Engine::LogitsOf::AllTokens);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }
  /// The largest error in rounding units of the engine's type (2^-24, 2^-11 or
  /// 2^-8), of the largest logit.
  double error(const std::vector<float> &got) const {
    EXPECT_EQ(got.size(), want.size());
    double most = 0, worst = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      most = std::max(most, std::abs(double(want[i])));
      // A NaN is the worst of all.
      double off = std::abs(double(got[i]) - double(want[i]));
      worst = off <= worst ? worst : off;
    }
    int bits = engine->dtype() == KVC_F32   ? 24
               : engine->dtype() == KVC_F16 ? 11
                                            : 8;
    return worst / most * std::ldexp(1.0, bits);
  }

  std::unique_ptr<Engine> engine;
  std::vector<uint32_t> tokens;
  std::vector<float> want; // [T, vocab]
};

} // namespace kvc::rt

#endif // KVC_TEST_MODELS_PARITY_H
