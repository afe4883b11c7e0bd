#include "runtime/base/Extent.h"

#include "runtime/base/Failure.h"

#include <gtest/gtest.h>

using namespace kvc::rt;

TEST(Extent, Evaluates) {
  Symbols symbols{{"tokens", 1000}, {"kv_heads", 8}};
  EXPECT_EQ(evaluateExtent("7", symbols), 7u);
  EXPECT_EQ(evaluateExtent("kv_heads", symbols), 8u);
  EXPECT_EQ(evaluateExtent("kv_heads*tokens*2", symbols), 16000u);
  EXPECT_EQ(evaluateExtent("ceildiv(tokens,128)", symbols), 8u);
  EXPECT_EQ(evaluateExtent("ceildiv(kv_heads*3,5)*2", symbols), 10u);
}

TEST(Extent, RefusesWhatItDoesNotKnow) {
  Symbols symbols{{"tokens", 1ull << 40}};
  for (const char *text :
       {"", "heads", "tokens+1", "tokens*", "ceildiv(tokens)", "3x",
        "ceildiv(tokens,0)", "tokens*tokens", "99999999999999999999"})
    EXPECT_THROW(evaluateExtent(text, symbols), Failure) << text;
}
