//===- NewRows.h - a call of kvc_append -----------------------------------===//

#ifndef KVC_TEST_RUNTIME_NEWROWS_H
#define KVC_TEST_RUNTIME_NEWROWS_H

#include "runtime/base/DType.h"
#include "test/runtime/SmallCache.h"

#include <gtest/gtest.h>

namespace kvc::test {

/// Rows [batch, heads, n, d] as they come: tokens first.
struct NewRows {
  NewRows(Random &random, const Cache &cache, uint32_t n) : cache(cache), n(n) {
    size_t rows = size_t(cache.batch) * cache.heads * n;
    for (size_t i = 0; i < rows; ++i) {
      k.push_back(randomRow(random, cache.dim, cache.dtype));
      v.push_back(randomRow(random, cache.dim, cache.dtype));
    }
    size_t bytes = rt::dtypeBytes(cache.dtype);
    kBytes.resize(rows * cache.dim * bytes);
    vBytes = kBytes;
    int64_t d = cache.dim, h = cache.heads;
    for (size_t i = 0; i < rows; ++i) {
      size_t j = i % n, g = i / n % cache.heads, s = i / n / cache.heads;
      size_t to = ((s * n + j) * cache.heads + g) * cache.dim * bytes;
      rt::narrow(&kBytes[to], k[i].data(), cache.dim, cache.dtype);
      rt::narrow(&vBytes[to], v[i].data(), cache.dim, cache.dtype);
    }
    args.struct_size = sizeof args;
    args.k = {kBytes.data(), n * h * d, d, h * d};
    args.v = {vBytes.data(), n * h * d, d, h * d};
    args.rows = n;
  }

  kvc_status append(const kvc_cache_view &view) {
    args.cache = &view;
    return kvc_append(&args);
  }

  /// What the cache is then.
  Cache grown() const {
    Cache grown = cache;
    for (uint32_t s = 0; s < cache.batch; ++s) {
      for (uint32_t g = 0; g < cache.heads; ++g)
        for (uint32_t j = 0; j < n; ++j) {
          size_t i = (size_t(s) * cache.heads + g) * n + j;
          Head &head = grown.head(s, g);
          head.positions.push_back(cache.lengths[s] + int32_t(j));
          head.k.push_back(k[i]);
          head.v.push_back(v[i]);
        }
      grown.lengths[s] += int32_t(n);
    }
    return grown;
  }

  const Cache &cache;
  uint32_t n;
  std::vector<std::vector<float>> k, v;
  std::vector<std::byte> kBytes, vBytes;
  kvc_append_args args = {};
};

inline void expectSame(const Cache &got, const Cache &want) {
  EXPECT_EQ(got.lengths, want.lengths);
  for (size_t i = 0; i < want.all.size(); ++i) {
    EXPECT_EQ(got.all[i].positions, want.all[i].positions) << i;
    EXPECT_EQ(got.all[i].k, want.all[i].k) << i;
    EXPECT_EQ(got.all[i].v, want.all[i].v) << i;
  }
}

} // namespace kvc::test

#endif // KVC_TEST_RUNTIME_NEWROWS_H
