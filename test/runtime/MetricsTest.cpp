//===- MetricsTest.cpp ----------------------------------------------------===//

#include "executor/eviction/Metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace kvc::rt;

namespace {

MetricsLayer shapeOf(uint32_t qHeads, uint32_t kvHeads, uint32_t headDim,
                     uint32_t tokens) {
  MetricsLayer layer = {};
  layer.qHeads = qHeads;
  layer.kvHeads = kvHeads;
  layer.headDim = headDim;
  layer.tokens = tokens;
  return layer;
}

MetricsLayer randomLayer(uint64_t seed, uint32_t tokens) {
  std::mt19937_64 random(seed);
  auto values = [&](size_t count, double size) {
    std::vector<double> result(count);
    for (double &x : result)
      x = size * (double(random() >> 11) / double(1ull << 52) - 1);
    return result;
  };
  MetricsLayer layer = shapeOf(4, 2, 8, tokens);
  layer.queries = 5;
  layer.hidden = 12;
  layer.scale = 0.5;
  layer.q = values(4 * 5 * 8, 3);
  layer.k = values(2 * tokens * 8, 2);
  layer.v = values(2 * tokens * 8, 1);
  layer.wo = values(12 * 4 * 8, 1);
  return layer;
}

KeptSequence keep(const std::vector<std::vector<int32_t>> &tokens) {
  KeptSequence kept;
  for (const std::vector<int32_t> &head : tokens) {
    kept.counts.push_back(int32_t(head.size()));
    kept.indices.insert(kept.indices.end(), head.begin(), head.end());
  }
  return kept;
}

TEST(Metrics, BoundsHoldForAnyKeptSet) {
  std::mt19937_64 random(3);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    uint32_t tokens = 6 + uint32_t(seed % 40);
    MetricsLayer layer = randomLayer(seed, tokens);
    std::vector<std::vector<int32_t>> heads(2);
    for (auto &head : heads)
      for (uint32_t t = 0; t < tokens; ++t)
        if (random() % 4 < 1 + seed % 3)
          head.push_back(int32_t(t));
    LayerMetrics got = measure(layer, keep(heads), KVC_F32, 1);
    double sum = 0;
    for (uint32_t h = 0; h < 4; ++h) {
      const HeadMetrics &head = got.heads[h];
      EXPECT_GE(head.mass, 0);
      EXPECT_LE(head.mass, 1 + 1e-12);
      if (!heads[h / 2].empty())
        EXPECT_LE(*head.perturbation, *head.criticalBound + 1e-9);
      EXPECT_LE(*head.perturbation, *head.adaBound + 1e-9);
      sum += *head.adaBound;
    }
    EXPECT_LE(*got.perturbation, *got.adaBound + 1e-9);
    EXPECT_NEAR(*got.adaBound, sum, 1e-9);
  }
}

TEST(Metrics, NothingChangesWhereAllIsKept) {
  MetricsLayer layer = randomLayer(1, 20);
  std::vector<int32_t> all(20);
  for (int32_t t = 0; t < 20; ++t)
    all[t] = t;
  LayerMetrics got = measure(layer, keep({all, all}), KVC_F32, 5);
  EXPECT_NEAR(*got.perturbation, 0, 1e-12);
  for (const HeadMetrics &head : got.heads)
    EXPECT_NEAR(head.mass, 1, 1e-12);
}

/// One head, one dimension, equal weights 1/2: worked out on paper.
TEST(Metrics, AgreesWithPaper) {
  MetricsLayer layer = shapeOf(1, 1, 1, 2);
  layer.queries = 1;
  layer.hidden = 2;
  layer.scale = 1;
  layer.q = {0};
  layer.k = {1, 2};
  layer.v = {3, 1};
  layer.wo = {1, -2}; // x_t = (v, -2v): norms 9 and 3
  KeptSequence kept = keep({{1}});
  LayerMetrics got = measure(layer, kept, KVC_F32, 1);
  EXPECT_DOUBLE_EQ(got.heads[0].mass, 0.5);
  EXPECT_DOUBLE_EQ(*got.heads[0].perturbation, 3);  // (2 - 1) * (1 + 2)
  EXPECT_DOUBLE_EQ(*got.heads[0].criticalBound, 6); // 6 - (2 - 2) * 1.5
  EXPECT_DOUBLE_EQ(*got.heads[0].adaBound, 9);      // 2 * 9 * 1/2
  EXPECT_EQ(got.kept, (std::vector<bool>{false, true}));
  // Both tokens in one row, merged: norm 2 and half a turn about are unknown
  // without a base of rotations, and with one an odd head has none.
  kept.members = {{2}, {0, 0}, {0, 1}, {1, 2}};
  float key = 1, value = 2;
  auto *bytes = reinterpret_cast<std::byte *>(&key);
  kept.k.assign(bytes, bytes + 4);
  bytes = reinterpret_cast<std::byte *>(&value);
  kept.v.assign(bytes, bytes + 4);
  got = measure(layer, kept, KVC_F32, 1);
  EXPECT_FALSE(got.heads[0].perturbation);
  layer.ropeTheta = 1e4;
  got = measure(layer, kept, KVC_F32, 1);
  EXPECT_DOUBLE_EQ(*got.heads[0].perturbation, 0); // the mean is the mean
  EXPECT_FALSE(got.heads[0].criticalBound);
}

TEST(Metrics, WithoutQueriesThereAreCountsOnly) {
  MetricsLayer layer = randomLayer(1, 9);
  layer.q.clear();
  LayerMetrics got = measure(layer, keep({{0, 3}, {3}}), KVC_F32, 1);
  EXPECT_TRUE(got.heads.empty());
  EXPECT_EQ(got.budgets, (std::vector<int32_t>{2, 1}));
}

} // namespace
