#include "executor/model/RaggedCache.h"
#include "runtime/base/DType.h"

#include <gtest/gtest.h>

using namespace kvc::rt;

namespace {

constexpr uint32_t d = 2;

/// Rows that tell head, side and number.
std::vector<float> rowsOf(const std::vector<int32_t> &counts, float side,
                          float first = 0) {
  std::vector<float> rows;
  for (size_t h = 0; h < counts.size(); ++h)
    for (int32_t i = 0; i < counts[h]; ++i)
      for (uint32_t e = 0; e < d; ++e)
        rows.push_back(side * (100 * float(h) + first + float(i)) + float(e));
  return rows;
}

void append(RaggedCache &cache, const std::vector<int32_t> &counts, float first,
            const RaggedCache::Members &members = {}) {
  auto k = narrow(rowsOf(counts, 1, first).data(), rowsOf(counts, 1).size(),
                  cache.dtype);
  auto v = narrow(rowsOf(counts, -1, first).data(), rowsOf(counts, -1).size(),
                  cache.dtype);
  cache.append(counts, k.data(), v.data(), members);
}

std::vector<float> keys(const RaggedCache &cache, uint32_t head) {
  Rope rope(d, 1e4, {});
  std::vector<float> k, v;
  auto rows = cache.attended(head, rope, k, v);
  return {rows.k, rows.k + rows.count * d};
}

} // namespace

// Heads grow by different numbers; what is there stays, also when the layer is
// laid out anew.
TEST(RaggedCache, GrowsHeadByHead) {
  for (kvc_dtype dtype : {KVC_F32, KVC_F16, KVC_BF16}) {
    RaggedCache cache(3, d, dtype);
    append(cache, {2, 0, 1}, 0);
    append(cache, {1, 70, 0}, 2);
    EXPECT_EQ(cache.rows(0), 3u);
    EXPECT_EQ(cache.rows(1), 70u);
    EXPECT_EQ(cache.rows(2), 1u);
    EXPECT_EQ(keys(cache, 0), (std::vector<float>{0, 1, 1, 2, 2, 3}));
    EXPECT_EQ(keys(cache, 2), (std::vector<float>{200, 201}));
    EXPECT_EQ(keys(cache, 1).size(), 140u);
    EXPECT_EQ(cache.usedBytes(), 74 * 2 * d * (dtype == KVC_F32 ? 4 : 2));
    RaggedCache::Contents all = cache.contents();
    RaggedCache copy(3, d, dtype);
    copy.append(all.counts, all.k.data(), all.v.data());
    for (uint32_t h = 0; h < 3; ++h)
      EXPECT_EQ(keys(copy, h), keys(cache, h));
    cache.clear();
    EXPECT_EQ(cache.usedBytes(), 0u);
    EXPECT_TRUE(keys(cache, 1).empty());
  }
}

// Rows remember whose they are, unless somebody appends some and does not say.
TEST(RaggedCache, Positions) {
  RaggedCache cache(2, d, KVC_F32);
  EXPECT_TRUE(cache.placed());
  auto rows = narrow(rowsOf({2, 1}, 1).data(), 3 * d, KVC_F32);
  cache.append({2, 1}, rows.data(), rows.data(), {}, {3, 8, 5});
  const float own[] = {1, 2, 3, 4};
  cache.append(own, own, 1, 9);
  EXPECT_TRUE(cache.placed());
  EXPECT_EQ(cache.contents().positions, (std::vector<int32_t>{3, 8, 9, 5, 9}));
  RaggedCache copy = cache;
  append(copy, {0, 0}, 0);
  EXPECT_TRUE(copy.placed());
  append(copy, {0, 1}, 0);
  EXPECT_FALSE(copy.placed());
  EXPECT_TRUE(copy.contents().positions.empty());
  copy.clear();
  EXPECT_TRUE(copy.placed());
}

// Members name rows among those that they come with; tokens that are read later
// are rows of their own, whose keys are turned when they are attended to.
TEST(RaggedCache, Members) {
  RaggedCache cache(1, d, KVC_F32);
  const float k[] = {1, 0, 0, 1}, v[] = {5, 6, 7, 8};
  auto bytes = [](const float *x) {
    return reinterpret_cast<const std::byte *>(x);
  };
  cache.append({1}, bytes(k), bytes(v), {{{0, 0, 2}, {0, 3, 4}}});
  cache.append({1}, bytes(k + 2), bytes(v + 2), {{{0, 5, 1}}});
  ASSERT_TRUE(cache.merged());
  const float raw[] = {3, 4};
  cache.append(raw, v, 1, 9);
  Rope rope(d, 1e4, {});
  std::vector<float> outK, outV;
  auto rows = cache.attended(0, rope, outK, outV);
  ASSERT_EQ(rows.count, 4u);
  EXPECT_EQ(rows.k[0], 2.0f); // position 0: not turned, norm 2
  EXPECT_EQ(rows.v[2], 5.0f); // the second member's value is the row's
  float third[] = {0, 1}, last[] = {3, 4};
  rope.rotate(third, 5);
  rope.rotate(last, 9);
  EXPECT_NEAR(rows.k[4], third[0], 1e-6);
  EXPECT_EQ(rows.v[5], 8.0f);
  EXPECT_NEAR(rows.k[6], last[0], 1e-6);
  EXPECT_NEAR(rows.k[7], last[1], 1e-6);
}
