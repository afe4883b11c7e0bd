#include "executor/eviction/Budget.h"

#include "runtime/base/Failure.h"

#include <gtest/gtest.h>

using namespace kvc::rt;

TEST(Budget, CountsTokens) { EXPECT_EQ(Budget::parse("64", "").of(10), 64u); }

// In binary floating point .29 * 100 is 28.999...
TEST(Budget, SharesAreExactDecimals) {
  EXPECT_EQ(Budget::parse("", "0.29").of(100), 29u);
  EXPECT_EQ(Budget::parse("", "0.1").of(1000), 100u);
  EXPECT_EQ(Budget::parse("", ".7").of(10), 7u);
  EXPECT_EQ(Budget::parse("", "1").of(4096), 4096u);
  EXPECT_EQ(Budget::parse("", "1.000").of(7), 7u);
  EXPECT_EQ(Budget::parse("", "0.333333333333").of(30), 9u);
}

// Behind a part of a prompt a share leaves a token.
TEST(Budget, OfAPart) {
  EXPECT_EQ(Budget::parse("", "0.1").ofPart(9), 1u);
  EXPECT_EQ(Budget::parse("", "0.1").ofPart(29), 2u);
  EXPECT_EQ(Budget::parse("64", "").ofPart(3), 64u);
}

TEST(Budget, Refuses) {
  for (const char *text : {"0", "-1", "1.5", "many", "3 ", "99999999999"})
    EXPECT_THROW(Budget::parse(text, ""), Failure) << text;
  for (const char *text : {"0", "0.0", "-0.5", "1.01", "2", "half", "0.1.2",
                           "1e-1", "0.1234567890123"})
    EXPECT_THROW(Budget::parse("", text), Failure) << text;
  EXPECT_THROW(Budget::parse("", "0.01").of(99), Failure);
}
