// Tiny random models and tokenizers of each family against what the reference
// framework made of them (test/models/make.py).

#include "runtime/executor/Engine.h"
#include "runtime/io/MappedFile.h"
#include "runtime/io/Safetensors.h"
#include "runtime/model/Tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>

using namespace kvc::rt;

static std::vector<std::string> fixtures(const std::string &kind) {
  std::vector<std::string> names;
  for (const auto &entry :
       std::filesystem::directory_iterator(KVC_FIXTURES "/" + kind))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

static std::string nameOf(const testing::TestParamInfo<std::string> &info) {
  return info.param;
}

class ModelParity : public testing::TestWithParam<std::string> {
public:
  void SetUp() override {
    std::string dir = KVC_FIXTURES "/models/" + GetParam();
    engine = makeEngine(dir, "host");
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
  /// The largest error in rounding units of fp32, 2^-24 of the largest logit.
  double error(const std::vector<float> &got) const {
    double most = 0, worst = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      most = std::max(most, std::abs(double(want[i])));
      worst = std::max(worst, std::abs(double(got[i]) - double(want[i])));
    }
    return worst / most * std::ldexp(1.0, 24);
  }

  std::unique_ptr<Engine> engine;
  std::vector<uint32_t> tokens;
  std::vector<float> want; // [T, vocab]
};

// Two layers of some dozens of sums each; angles of up to 96 radians are
// rounded to fp32 in both.
constexpr double mostUnits = 128;

TEST_P(ModelParity, AtOnce) {
  std::vector<float> got = logits(tokens.size());
  ASSERT_EQ(got.size(), want.size());
  EXPECT_LE(error(got), mostUnits);
}

TEST_P(ModelParity, InChunks) { EXPECT_LE(error(logits(7)), mostUnits); }

TEST_P(ModelParity, TokenByToken) { EXPECT_LE(error(logits(1)), mostUnits); }

INSTANTIATE_TEST_SUITE_P(Families, ModelParity,
                         testing::ValuesIn(fixtures("models")), nameOf);

class TokenizerParity : public testing::TestWithParam<std::string> {};

TEST_P(TokenizerParity, DifficultTexts) {
  std::string dir = KVC_FIXTURES "/tokenizers/" + GetParam();
  Tokenizer tokenizer(dir);
  auto expected = nlohmann::json::parse(readText(dir + "/expected.json"));
  ASSERT_GE(expected["cases"].size(), 20u);
  for (const auto &one : expected["cases"]) {
    std::string text = one["text"];
    SCOPED_TRACE(one["text"].dump());
    std::vector<uint32_t> tokens = one["tokens"];
    EXPECT_EQ(tokenizer.encode(text, false), tokens);
    EXPECT_EQ(tokenizer.encode(text, true),
              one["with_begin"].get<std::vector<uint32_t>>());
    EXPECT_EQ(tokenizer.decode(tokens), one["decoded"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TokenizerParity,
                         testing::ValuesIn(fixtures("tokenizers")), nameOf);
