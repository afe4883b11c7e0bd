// Tiny random models and tokenizers of each family against what the reference
// framework made of them (test/models/make.py).

#include "executor/io/MappedFile.h"
#include "executor/model/Tokenizer.h"
#include "test/models/Parity.h"

#include <nlohmann/json.hpp>

using namespace kvc::rt;

// Two layers of some dozens of sums each; angles of up to 96 radians are
// rounded to fp32 in both.
constexpr double mostUnits = 128;

TEST_P(ModelParity, AtOnce) {
  open("host");
  EXPECT_LE(error(logits(tokens.size())), mostUnits);
}

TEST_P(ModelParity, InChunks) {
  open("host");
  EXPECT_LE(error(logits(7)), mostUnits);
}

TEST_P(ModelParity, TokenByToken) {
  open("host");
  EXPECT_LE(error(logits(1)), mostUnits);
}

INSTANTIATE_TEST_SUITE_P(Families, ModelParity,
                         testing::ValuesIn(fixtures("models")), fixtureName);

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
                         testing::ValuesIn(fixtures("tokenizers")),
                         fixtureName);
