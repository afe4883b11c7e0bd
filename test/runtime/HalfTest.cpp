#include "runtime/base/Half.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kvc::rt;

// Every f16 and bf16 number survives the way to f32 and back.
TEST(Half, RoundTripsEveryNumber) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float half = fromF16(uint16_t(bits)), brain = fromBF16(uint16_t(bits));
    if (!std::isnan(half))
      ASSERT_EQ(toF16(half), bits);
    else
      ASSERT_TRUE(std::isnan(fromF16(toF16(half))));
    if (!std::isnan(brain))
      ASSERT_EQ(toBF16(brain), bits);
    else
      ASSERT_TRUE(std::isnan(fromBF16(toBF16(brain))));
  }
}

// Between two neighbours the nearer wins, halfway the even one.
TEST(Half, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    double low = fromF16(uint16_t(bits)), high = fromF16(uint16_t(bits + 1));
    auto middle = float((low + high) / 2);
    ASSERT_EQ(toF16(middle), bits + (bits & 1)) << bits;
    ASSERT_EQ(toF16(std::nextafter(middle, INFINITY)), bits + 1) << bits;
    ASSERT_EQ(toF16(std::nextafter(middle, -INFINITY)), bits) << bits;
  }
  EXPECT_EQ(toF16(65519.f), 0x7bff);
  EXPECT_EQ(toF16(65520.f), 0x7c00);
  EXPECT_EQ(toBF16(1.00390625f), 0x3f80);
  EXPECT_EQ(toBF16(1.01171875f), 0x3f82);
}
