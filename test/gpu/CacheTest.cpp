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
    for (uint32_t h = 0; h < heads; ++h)
      for (int32_t i = 0; i < counts[h]; ++i)
        c.positions.push_back(int32_t(seed % 4 + h) + 2 * i);
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
         a.positions == b.positions && members(a) == members(b);
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
  auto place = out.positions.begin(), old = in.positions.begin();
  for (uint32_t h = 0; h < heads; ++h) {
    size_t bytes = size_t(in.counts[h]) * rowBytes;
    EXPECT_EQ(out.counts[h], in.counts[h] + 150);
    EXPECT_TRUE(std::equal(in.v.begin() + ptrdiff_t(from),
                           in.v.begin() + ptrdiff_t(from + bytes),
                           out.v.begin() + ptrdiff_t(to)))
        << h;
    EXPECT_TRUE(std::equal(old, old + in.counts[h], place)) << h;
    for (int32_t i = 0; i < 150; ++i)
      EXPECT_EQ(place[in.counts[h] + i], 60 + i) << h;
    old += in.counts[h];
    place += out.counts[h];
    from += bytes;
    to += size_t(out.counts[h]) * rowBytes;
  }
}

// Rows of which nobody says whose they are make all of a layer's unknown.
TEST_F(GpuCaches, PositionsThatNobodyKnows) {
  auto cache = engine->makeCache(engine->dtype());
  auto in = contents(ragged(5), 40);
  in.positions.clear();
  cache->restore(0, in);
  auto other = cache->copy();
  engine->run({1, 2}, 40, *other, [&](uint32_t l, Activations &layer) {
    other->append(l, layer, 40);
  });
  EXPECT_TRUE(same(cache->contents(0), in));
  EXPECT_TRUE(other->contents(0).positions.empty());
  EXPECT_EQ(other->contents(1).positions.size(), 2 * heads);
}

// The last queries, whatever the pieces they came in, and rows of zeros in front.
TEST_F(GpuCaches, RecentQueries) {
  auto cache = engine->makeCache(engine->dtype());
  auto all = engine->makeRecentQueries(KVC_ALL_QUERIES),
       few = engine->makeRecentQueries(7);
  std::unique_ptr<RecentQueries> copy;
  uint32_t position = 0;
  for (uint32_t count : {3u, 1u, 20u, 2u, 100u, 1u, 1u, 70u}) {
    engine->run(std::vector<uint32_t>(count, 5), position, *cache,
                [&](uint32_t l, Activations &layer) {
                  cache->append(l, layer, position);
                  all->add(l, layer);
                  few->add(l, layer);
                  if (copy)
                    copy->add(l, layer);
                });
    position += count;
    if (count == 20)
      copy = few->copy();
    ASSERT_EQ(all->count(0), position);
    ASSERT_EQ(few->count(0), std::min(7u, position));
    for (uint32_t l = 0; l < engine->config.layers; ++l) {
      EXPECT_EQ(few->contents(l), all->last(l, few->count(l)));
      EXPECT_EQ(few->lse(l, few->count(l)), all->lse(l, few->count(l)));
      if (copy)
        EXPECT_EQ(copy->contents(l), few->contents(l));
    }
  }
  auto loaded = engine->makeRecentQueries(9);
  loaded->restore(0, few->contents(0));
  EXPECT_EQ(loaded->contents(0), few->contents(0));
  EXPECT_TRUE(loaded->lse(0, 7).empty());
  few->evicted(1);
  EXPECT_TRUE(few->lse(1, 1).empty());
  EXPECT_FALSE(few->lse(0, 7).empty());
}

// Tokens become rows of one member: unit keys before RoPE, and their norms. More come
// than there is room for.
TEST_F(GpuCaches, TokensBehindMergedRows) {
  auto cache = engine->makeCache(engine->dtype());
  auto in = contents(ragged(4), 1, true);
  for (uint32_t l = 0; l < engine->config.layers; ++l)
    cache->restore(l, in);
  std::vector<LayerActivations> runs;
  uint32_t position = 30, added = 0;
  for (uint32_t count : {1u, 70u, 2u}) {
    engine->run(std::vector<uint32_t>(count, 3), position, *cache,
                [&](uint32_t l, Activations &layer) {
                  cache->append(l, layer, position);
                  if (l == 0)
                    runs.push_back(layer.onHost());
                });
    position += count;
    added += count;
  }
  auto copy = cache->copy();
  auto out = cache->contents(0);
  EXPECT_TRUE(same(out, copy->contents(0)));
  kvc_dtype type = engine->dtype();
  std::vector<float> k = widened(out.k.data(), out.k.size() / dtypeBytes(type),
                                 type),
                     v = widened(out.v.data(), out.v.size() / dtypeBytes(type),
                                 type);
  size_t row = 0, before = 0;
  for (uint32_t h = 0; h < heads; ++h) {
    auto old = size_t(in.counts[h]), oldMembers = in.members[h].size();
    ASSERT_EQ(out.counts[h], in.counts[h] + int32_t(added));
    ASSERT_EQ(out.members[h].size(), oldMembers + added);
    EXPECT_TRUE(std::equal(in.k.begin() + ptrdiff_t(before * rowBytes),
                           in.k.begin() + ptrdiff_t((before + old) * rowBytes),
                           out.k.begin() + ptrdiff_t(row * rowBytes)));
    for (size_t i = 0; i < oldMembers; ++i)
      EXPECT_EQ(out.members[h][i].position, in.members[h][i].position);
    size_t t = 0;
    for (const LayerActivations &run : runs)
      for (uint32_t i = 0; i < run.tokens; ++i, ++t) {
        const float *raw = &run.kRaw[(size_t(h) * run.tokens + i) * d];
        double squares = 0;
        for (uint32_t j = 0; j < d; ++j)
          squares += double(raw[j]) * raw[j];
        const Member &member = out.members[h][oldMembers + t];
        EXPECT_EQ(member.row, old + t);
        EXPECT_EQ(member.position, 30 + t);
        EXPECT_EQ(out.positions[row + old + t], int32_t(30 + t));
        EXPECT_NEAR(member.norm, std::sqrt(squares), 1e-5 * std::sqrt(squares));
        for (uint32_t j = 0; j < d; ++j) {
          size_t at = (row + old + t) * d + j;
          EXPECT_NEAR(k[at], raw[j] / std::sqrt(squares), 0.005);
          EXPECT_EQ(v[at], run.v[(size_t(h) * run.tokens + i) * d + j]);
        }
      }
    row += size_t(out.counts[h]);
    before += old;
  }
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
