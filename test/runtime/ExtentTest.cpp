#include "runtime/base/Extent.h"

#include "runtime/base/Failure.h"

#include <gtest/gtest.h>

using namespace kvc::rt;

static uint64_t evaluate(const std::string &text, uint64_t tokens) {
  Symbols symbols = {};
  symbols[size_t(Symbol::Tokens)] = tokens;
  symbols[size_t(Symbol::KvHeads)] = 8;
  return Extent(text).evaluate(symbols);
}

TEST(Extent, Evaluates) {
  EXPECT_EQ(evaluate("7", 1000), 7u);
  EXPECT_EQ(evaluate("kv_heads", 1000), 8u);
  EXPECT_EQ(evaluate("kv_heads*tokens*2", 1000), 16000u);
  EXPECT_EQ(evaluate("ceildiv(tokens,128)", 1000), 8u);
  EXPECT_EQ(evaluate("ceildiv(kv_heads*3,5)*2", 1000), 10u);
  EXPECT_EQ(evaluate("ceildiv(ceildiv(tokens,3),ceildiv(kv_heads,3))", 1000),
            112u);
  EXPECT_EQ(evaluate("min(ceildiv(tokens,2048),16)", 4100), 3u);
  EXPECT_EQ(evaluate("min(ceildiv(tokens,2048),16)*2", 1 << 20), 32u);
  EXPECT_EQ(evaluate("min(0,tokens)", 5), 0u);
  EXPECT_EQ(evaluate("18446744073709551615", 0), UINT64_MAX);
}

TEST(Extent, RefusesWhatItDoesNotKnow) {
  for (const char *text :
       {"", "heads", "tokens+1", "tokens*", "ceildiv(tokens)", "3x", "-1",
        "ceildiv(tokens,2", "min(tokens)", "max(tokens,2)",
        "99999999999999999999"})
    EXPECT_THROW(Extent{text}, Failure) << text;
}

// Each needs more room on the stack than the one in it.
TEST(Extent, RefusesWhatIsNestedTooDeep) {
  std::string text = "1";
  for (int i = 0; i < 31; ++i)
    text = "ceildiv(2," + text + ")";
  EXPECT_EQ(evaluate(text, 0), 2u);
  EXPECT_THROW(Extent("ceildiv(2," + text + ")"), Failure);
}

TEST(Extent, RefusesWhatDoesNotFit) {
  for (const char *text : {"tokens*tokens", "ceildiv(tokens,0)"})
    try {
      evaluate(text, 1ull << 40);
      FAIL() << text;
    } catch (const Failure &failure) {
      EXPECT_EQ(failure.what(),
                "an extent must fit 64 bits, got '" + std::string(text) + "'");
    }
}
