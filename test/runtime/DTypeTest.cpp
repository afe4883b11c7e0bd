#include "runtime/base/DType.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace kvc::rt;

TEST(DType, NamesAndSizes) {
  for (kvc_dtype dtype : {KVC_F32, KVC_F16, KVC_BF16})
    EXPECT_EQ(parseDtype(dtypeName(dtype)), dtype);
  EXPECT_EQ(parseDtype("F32"), std::nullopt);
  EXPECT_EQ(parseDtype("fp8"), std::nullopt);
  EXPECT_EQ(dtypeBytes(KVC_F32), 4u);
  EXPECT_EQ(dtypeBytes(KVC_F16), 2u);
  EXPECT_EQ(dtypeBytes(KVC_BF16), 2u);
}

// What a type holds comes back as it was, from any address.
TEST(DType, RoundTrips) {
  std::vector<float> values = {0, -0.0f, 1, -1.5, 1024, 0.125};
  for (kvc_dtype dtype : {KVC_F32, KVC_F16, KVC_BF16}) {
    std::vector<std::byte> bytes = narrow(values.data(), values.size(), dtype);
    EXPECT_EQ(bytes.size(), values.size() * dtypeBytes(dtype));
    bytes.insert(bytes.begin(), std::byte(0));
    EXPECT_EQ(widened(&bytes[1], values.size(), dtype), values);
    EXPECT_EQ(toDouble(&bytes[1], values.size(), dtype),
              std::vector<double>(values.begin(), values.end()));
  }
  EXPECT_TRUE(narrow(nullptr, 0, KVC_F32).empty());
}

TEST(DType, NarrowsToNearestEven) {
  float middle = 1 + 1.0f / 256; // between two bf16
  uint16_t bits;
  std::memcpy(&bits, narrow(&middle, 1, KVC_BF16).data(), 2);
  EXPECT_EQ(bits, 0x3f80);
}
