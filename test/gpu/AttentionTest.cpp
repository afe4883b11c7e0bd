// The attention sweep against a plain one in double: all types, head dimensions
// that are padded, groups, ragged and merged caches, keys split between blocks.

#include "runtime/base/DType.h"
#include "executor/cuda/AttentionBoxes.h"
#include "executor/cuda/kernels/Args.h"
#include "runtime/kernels/AttentionState.h"
#include "executor/model/RaggedCache.h"
#include "runtime/plan/Manifest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include <dlfcn.h>

using namespace kvc;
using namespace kvc::gpu;

namespace {

struct Shape {
  uint32_t tokens, d, kvHeads, group, splits;
  std::vector<int32_t> counts; // cached rows of each head
  uint32_t extra;              // rows behind them, merged: members, too
  bool merged;
};

std::ostream &operator<<(std::ostream &out, const Shape &s) {
  out << s.tokens << " tokens, d " << s.d << ", " << s.kvHeads << " heads of "
      << s.group << ", " << s.splits << " splits, cache";
  for (int32_t count : s.counts)
    out << " " << count;
  return out << " + " << s.extra << (s.merged ? " merged" : "");
}

/// Numbers that the type has.
class Numbers {
public:
  Numbers(kvc_dtype dtype, size_t count, std::mt19937 &random, float scale) {
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> drawn(count);
    for (float &x : drawn)
      x = normal(random);
    bytes = rt::narrow(drawn.data(), count, dtype);
    values = rt::widened(bytes.data(), count, dtype);
  }
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

/// False in the emulation, which has no bulk copy engine.
bool hasBulkCopies() {
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  const char *ptx = std::getenv("KVC_FAKE_CUDA_PTX");
  return !dlsym(driver, "kvcFakeDriver") || (ptx && *ptx == '1');
}

class Attention : public testing::TestWithParam<kvc_dtype> {
public:
  Queue queue{0, GetParam()};
  std::mt19937 random{7};

  Numbers numbers(size_t count, float scale = 1) {
    return Numbers(GetParam(), count, random, scale);
  }
  double unit() const {
    return std::ldexp(1.0, GetParam() == KVC_F32   ? -24
                           : GetParam() == KVC_F16 ? -11
                                                   : -8);
  }
  void check(const Shape &shape);
};

void Attention::check(const Shape &s) {
  SCOPED_TRACE(testing::PrintToString(s));
  kvc_dtype dtype = GetParam();
  uint32_t d = s.d, heads = s.kvHeads, qHeads = heads * s.group;
  constexpr uint32_t room = 3; // free rows behind each head
  Numbers q = numbers(size_t(qHeads) * s.tokens * d, 2),
          k = numbers(size_t(heads) * s.tokens * d, 1),
          v = numbers(size_t(heads) * s.tokens * d);
  std::vector<int32_t> offsets, memberCounts, memberRows, memberPositions;
  std::vector<float> memberNorms;
  int32_t rows = 0,
          longest = *std::max_element(s.counts.begin(), s.counts.end());
  uint32_t capacity = 2 * uint32_t(longest) + 1 + s.extra + room;
  for (int32_t count : s.counts) {
    offsets.push_back(rows);
    int32_t all = count + int32_t(s.extra);
    rows += all + int32_t(room);
    // Two members a row and one more, in no order; behind the last one nonsense.
    memberCounts.push_back(count ? 2 * count + 1 : 0);
    int32_t members = memberCounts.back() + int32_t(s.extra);
    for (int32_t i = 0; i < int32_t(capacity); ++i) {
      memberRows.push_back(i < members ? i * 5 % all : -1);
      memberPositions.push_back(i < members ? i * 7 % 50 : -1);
      memberNorms.push_back(0.5f + 0.1f * float(i % 7));
    }
  }
  Numbers cacheK = numbers(size_t(rows) * d),
          cacheV = numbers(size_t(rows) * d);
  std::vector<float> rope; // [50, d / 2, 2]
  for (uint32_t p = 0; p < 50; ++p)
    for (uint32_t i = 0; i < d / 2; ++i) {
      double angle = p * std::pow(100.0, -2.0 * i / d);
      rope.push_back(float(std::cos(angle)));
      rope.push_back(float(std::sin(angle)));
    }

  Buffer qBuffer = queue.uploaded(q.bytes), kBuffer = queue.uploaded(k.bytes),
         vBuffer = queue.uploaded(v.bytes),
         cacheKBuffer = queue.uploaded(cacheK.bytes),
         cacheVBuffer = queue.uploaded(cacheV.bytes),
         offsetBuffer = queue.uploaded(offsets),
         countBuffer = queue.uploaded(s.counts),
         memberRowBuffer = queue.uploaded(memberRows),
         memberPositionBuffer = queue.uploaded(memberPositions),
         memberNormBuffer = queue.uploaded(memberNorms),
         memberCountBuffer = queue.uploaded(memberCounts),
         ropeBuffer = queue.uploaded(rope);
  Buffer out(queue, q.bytes.size()),
      lse(queue, size_t(qHeads) * s.tokens * sizeof(float)),
      parts(queue, size_t(s.splits) * qHeads * s.tokens * (d + 2) * 4);
  AttendArgs args = {};
  args.q = qBuffer.data();
  args.k = kBuffer.data();
  args.v = vBuffer.data();
  args.cache.k = cacheKBuffer.data();
  args.cache.v = cacheVBuffer.data();
  args.cache.offsets = offsetBuffer.as<int32_t>();
  args.cache.counts = countBuffer.as<int32_t>();
  args.cache.extra = s.extra;
  if (s.merged)
    args.cache.members = {memberRowBuffer.as<int32_t>(),
                          memberPositionBuffer.as<int32_t>(),
                          memberNormBuffer.as<float>(),
                          memberCountBuffer.as<int32_t>(), capacity};
  args.cache.rope = ropeBuffer.as<float>();
  args.out = out.data();
  args.lse = lse.as<float>();
  args.parts = parts.as<float>();
  args.tokens = s.tokens;
  args.qHeads = qHeads;
  args.kvHeads = heads;
  args.d = d;
  args.scale = float(1 / std::sqrt(double(d)));
  args.splits = s.splits;
  auto bytes = uint32_t(rt::dtypeBytes(dtype));
  uint32_t width = attentionWidth(d);
  std::string type = "_TYPE_" + std::to_string(width);
  uint32_t headRows = s.tokens * s.group;
  std::vector<std::pair<Sharing, bool>> ways; // with boxes or without
  for (Sharing sharing : allSharings)
    ways.push_back({sharing, false});
  if (hasBulkCopies())
    ways.push_back({Sharing::Keys64, true});
  for (auto [sharing, boxes] : ways) {
    uint32_t rowsOf = attentionRows(bytes, width, sharing);
    bool members = sharing == Sharing::Rows || sharing == Sharing::Keys;
    if ((sharing == Sharing::Rows && headRows > rowsOf) ||
        (s.merged && !members) ||
        !hasSharing(bytes, width, sharing, queue.multipliesTogether()))
      continue;
    if (boxes) {
      giveBoxes(queue, args, longest + s.extra ? uint32_t(rows) : 0);
      EXPECT_EQ(args.boxes.rows > 0, d == width);
    }
    queue.launch("attend" + type + attentionKernelEnd(sharing),
                 {ceilDiv(headRows, rowsOf), heads, s.splits},
                 attentionThreads(bytes, width, sharing), args,
                 attentionLaunchBytes(bytes, width, sharing));
    if (s.splits > 1)
      queue.launch("combine" + type, {s.tokens * qHeads, 1, 1}, partsThreads,
                   args);
    auto got = queue.downloadedAsFloat(out.data(), q.values.size());
    auto gotLse =
        queue.downloaded<float>(lse.data(), size_t(qHeads) * s.tokens);

    double worst = 0, worstLse = 0, largest = 0;
    for (float x : v.values)
      largest = std::max(largest, double(std::abs(x)));
    for (uint32_t h = 0; h < qHeads; ++h) {
      uint32_t kv = h / s.group;
      // Keys and values that the cache stands for.
      std::vector<std::vector<double>> keys, values;
      auto add = [&](const Numbers &fromK, const Numbers &fromV, size_t row) {
        auto *key = &fromK.values[row * d], *value = &fromV.values[row * d];
        keys.emplace_back(key, key + d);
        values.emplace_back(value, value + d);
      };
      auto first = size_t(offsets[kv]);
      uint32_t rowsThere = uint32_t(s.counts[kv]) + s.extra,
               members = uint32_t(memberCounts[kv]) + s.extra;
      for (size_t i = 0; !s.merged && i < rowsThere; ++i)
        add(cacheK, cacheV, first + i);
      for (size_t i = 0; s.merged && i < members; ++i) {
        size_t at = kv * capacity + i;
        add(cacheK, cacheV, first + size_t(memberRows[at]));
        std::vector<double> turned(d);
        for (uint32_t j = 0; j < d / 2; ++j) {
          const float *turn = &rope[size_t(memberPositions[at]) * d + 2 * j];
          double x = keys.back()[j], y = keys.back()[j + d / 2];
          turned[j] = memberNorms[at] * (x * turn[0] - y * turn[1]);
          turned[j + d / 2] = memberNorms[at] * (y * turn[0] + x * turn[1]);
        }
        keys.back() = turned;
      }
      size_t past = keys.size();
      for (size_t t = 0; t < s.tokens; ++t)
        add(k, v, size_t(kv) * s.tokens + t);
      for (uint32_t t = 0; t < s.tokens; ++t) {
        const float *query = &q.values[(size_t(h) * s.tokens + t) * d];
        std::vector<double> logits;
        for (size_t i = 0; i <= past + t; ++i) {
          double sum = 0;
          for (uint32_t j = 0; j < d; ++j)
            sum += query[j] * keys[i][j];
          logits.push_back(sum / std::sqrt(double(d)));
        }
        double most = *std::max_element(logits.begin(), logits.end()), sum = 0;
        for (double x : logits)
          sum += std::exp(x - most);
        double off =
            std::abs(gotLse[size_t(h) * s.tokens + t] - (most + std::log(sum)));
        worstLse = off <= worstLse ? worstLse : off;
        for (uint32_t j = 0; j < d; ++j) {
          double mean = 0;
          for (size_t i = 0; i < logits.size(); ++i)
            mean += std::exp(logits[i] - most) / sum * values[i][j];
          off = std::abs(got[(size_t(t) * qHeads + h) * d + j] - mean);
          worst = off <= worst ? worst : off;
        }
      }
    }
    // Weights and result are rounded to the type, a member's key is, too; sums
    // are fp32, and so are logits of up to some dozens.
    double units = dtype == KVC_F32 ? 64 : s.merged ? 8 : 3;
    EXPECT_LE(worst, units * unit() * largest);
    EXPECT_LE(worstLse, s.merged ? 8 * unit() + 2e-5 : 2e-5);
  }
}

} // namespace

TEST_P(Attention, Prefill) {
  for (uint32_t d : {8u, 16u, 20u, 32u, 64u, 80u, 128u})
    check({70, d, 2, 2, 1, {0, 0}, 0, false});
}

// Tiles that the bulk copy engine brings, and those behind them: of tokens, and of a cache of
// which one head has nothing.
TEST_P(Attention, WholeTiles) {
  check({210, 128, 1, 1, 1, {0}, 0, false});
  check({130, 128, 2, 1, 1, {110, 0}, 0, false});
  check({130, 64, 1, 1, 2, {270}, 3, false});
}

TEST_P(Attention, Groups) {
  for (uint32_t group : {1u, 3u, 4u, 7u})
    check({37, 16, 2, group, 1, {5, 90}, 2, false});
}

TEST_P(Attention, OneTokenAgainstARaggedCache) {
  for (uint32_t splits : {1u, 2u, 5u})
    check({1, 64, 3, 4, splits, {300, 0, 41}, 9, false});
}

TEST_P(Attention, MoreSplitsThanKeys) {
  check({3, 32, 2, 1, 9, {4, 0}, 0, false});
}

TEST_P(Attention, ChunkAgainstARaggedCache) {
  for (uint32_t splits : {1u, 3u})
    check({130, 32, 2, 2, splits, {100, 7}, 5, false});
}

TEST_P(Attention, MergedRows) {
  for (uint32_t d : {8u, 20u, 128u})
    check({9, d, 2, 2, 1, {40, 3}, 6, true});
  check({1, 64, 3, 4, 3, {100, 0, 30}, 0, true});
}

INSTANTIATE_TEST_SUITE_P(Gpu, Attention,
                         testing::Values(KVC_F32, KVC_F16, KVC_BF16),
                         [](const auto &info) {
                           return std::string(rt::dtypeName(info.param));
                         });
