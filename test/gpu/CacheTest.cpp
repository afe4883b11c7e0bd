// Ragged caches on a GPU: what goes in comes out, wherever it moved in between.

#include "executor/cuda/GpuEngine.h"
#include "executor/session/OpenEngine.h"
#include "executor/session/Session.h"
#include "runtime/base/DType.h"
#include "test/models/Parity.h"

using namespace kvc::rt;

namespace {

class GpuCaches : public testing::Test {
public:
  std::unique_ptr<Engine> engine =
      makeEngine(fixtureDir() + "/models/qwen2", "cuda");
  uint32_t heads = engine->config.kvHeads, d = engine->config.headDim;
  size_t rowBytes = d * dtypeBytes(engine->dtype());

  /// Rows that tell head and number.
  RaggedCache::Contents contents(std::vector<int32_t> counts, uint8_t seed,
                                 bool merged = false) const {
    RaggedCache::Contents c;
    c.counts = counts;
    for (uint32_t h = 0; h < heads; ++h)
      for (int32_t i = 0; i < counts[h]; ++i)
        for (size_t b = 0; b < rowBytes; ++b) {
          c.k.push_back(std::byte(seed + 31 * h + i + 3 * b));
          c.v.push_back(std::byte(seed + 17 * h + 5 * i + b));
        }
    for (uint32_t h = 0; merged && h < heads; ++h) {
      auto &head = c.members.emplace_back();
      for (uint32_t i = 0; i < 2 * uint32_t(counts[h]); ++i)
        head.push_back({i / 2, seed + i, 0.25f * float(i + h)});
    }
    return c;
  }
  std::vector<int32_t> ragged(int32_t first) const {
    std::vector<int32_t> counts;
    for (uint32_t h = 0; h < heads; ++h)
      counts.push_back(first + int32_t(3 * h));
    return counts;
  }
};

bool same(const RaggedCache::Contents &a, const RaggedCache::Contents &b) {
  auto members = [](const RaggedCache::Contents &c) {
    std::vector<std::tuple<size_t, uint32_t, uint32_t, float>> all;
    for (size_t h = 0; h < c.members.size(); ++h)
      for (const Member &m : c.members[h])
        all.emplace_back(h, m.row, m.position, m.norm);
    return all;
  };
  return a.counts == b.counts && a.k == b.k && a.v == b.v &&
         members(a) == members(b);
}

template <typename Act> std::string refusal(const Act &act) {
  try {
    act();
  } catch (const std::exception &error) {
    return error.what();
  }
  return "accepted";
}

} // namespace

TEST_F(GpuCaches, RestoreAndContents) {
  for (bool merged : {false, true})
    for (int32_t first : {0, 1, 70}) {
      auto cache = engine->makeCache(engine->dtype());
      auto in = contents(ragged(first), 9, merged);
      cache->restore(1, in);
      EXPECT_TRUE(same(cache->contents(1), in)) << merged << first;
      EXPECT_EQ(cache->rows(1, heads - 1), uint32_t(in.counts[heads - 1]));
      EXPECT_EQ(cache->contents(0).k.size(), 0u);
    }
}

TEST_F(GpuCaches, CopiesAreIndependent) {
  auto cache = engine->makeCache(engine->dtype());
  auto in = contents(ragged(4), 3);
  cache->restore(0, in);
  auto other = cache->copy();
  // Two tokens go behind the rows of the copy.
  engine->run({1, 2}, 40, *other, [&](uint32_t l, Activations &layer) {
    other->append(l, layer, 40);
  });
  EXPECT_TRUE(same(cache->contents(0), in));
  EXPECT_EQ(other->rows(0, 0), cache->rows(0, 0) + 2);
  auto out = other->contents(0);
  EXPECT_TRUE(std::equal(in.k.begin(), in.k.begin() + ptrdiff_t(4 * rowBytes),
                         out.k.begin()));
}

TEST_F(GpuCaches, RowsStayThroughManyTokens) {
  // More than the free rows behind a head: it is laid out anew, twice.
  auto cache = engine->makeCache(engine->dtype());
  auto in = contents(ragged(5), 40);
  cache->restore(0, in);
  std::vector<uint32_t> tokens(50, 7);
  for (uint32_t first : {60u, 110u, 160u})
    engine->run(tokens, first, *cache, [&](uint32_t l, Activations &layer) {
      cache->append(l, layer, first);
    });
  auto out = cache->contents(0);
  size_t from = 0, to = 0;
  for (uint32_t h = 0; h < heads; ++h) {
    size_t bytes = size_t(in.counts[h]) * rowBytes;
    EXPECT_EQ(out.counts[h], in.counts[h] + 150);
    EXPECT_TRUE(std::equal(in.v.begin() + ptrdiff_t(from),
                           in.v.begin() + ptrdiff_t(from + bytes),
                           out.v.begin() + ptrdiff_t(to)))
        << h;
    from += bytes;
    to += size_t(out.counts[h]) * rowBytes;
  }
}

TEST_F(GpuCaches, AMergedCacheIsNotSavedWithTokensBehindIt) {
  auto cache = engine->makeCache(engine->dtype());
  for (uint32_t l = 0; l < engine->config.layers; ++l)
    cache->restore(l, contents(ragged(4), 1, true));
  engine->run({1}, 30, *cache, [&](uint32_t l, Activations &layer) {
    cache->append(l, layer, 30);
  });
  EXPECT_EQ(refusal([&] { cache->contents(0); }),
            "a merged cache must be saved before more tokens are read, got 1 "
            "behind it");
}

TEST_F(GpuCaches, OfAnotherType) {
  EXPECT_EQ(refusal([&] {
              engine->makeCache(KVC_F32);
            }).find("on a GPU a cache is of the model's type "),
            0u);
}

TEST(GpuEngine, OfADeviceThatIsNotThere) {
  EXPECT_EQ(refusal([&] {
              kvc::gpu::makeGpuEngine(fixtureDir() + "/models/qwen2", 99);
            }).find("CUDA device must be below "),
            0u);
}
