// New rows behind those of a cache, in every view, and what is refused.

#include "test/runtime/Allocations.h"
#include "test/runtime/AttendCall.h"
#include "test/runtime/CacheErrors.h"
#include "test/runtime/NewRows.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kvc::rt;
using namespace kvc::test;

TEST(Append, PutsRowsBehindThoseOfEveryHead) {
  Random random(1);
  for (Layout layout : layouts)
    for (uint32_t pageRows : {1, 4, 64}) {
      // A page of one head's rows is not the next one's as well.
      if (pageRows > 1 && !isPaged(layout))
        continue;
      for (uint32_t n : {1, 3, 9}) {
        SCOPED_TRACE(testing::Message() << int(layout) << " pages of "
                                        << pageRows << ", " << n << " rows");
        Cache cache = randomCache(random, 2, 3, 8, dtypes[n % 3], 40);
        NewRows rows(random, cache, n);
        Laid laid(cache, layout, pageRows, n);
        auto memory = laid.memory;
        size_t before = allocations;
        kvc_status status = rows.append(laid.view);
        EXPECT_EQ(allocations - before, 0u);
        ASSERT_EQ(status, KVC_OK) << lastError();
        expectSame(laid.read(), rows.grown());
        // And nothing else was written.
        size_t changed = 0, bytes = dtypeBytes(cache.dtype);
        for (size_t i = 0; i < memory.size(); i += bytes)
          changed += std::memcmp(&memory[i], &laid.memory[i], bytes) != 0;
        EXPECT_EQ(changed, rows.k.size() * 2 * cache.dim);
      }
    }
}

TEST(Append, ThenAttend) {
  Random random(2);
  for (Layout layout : layouts) {
    Cache cache = randomCache(random, 2, 2, 16, KVC_BF16, 60);
    Laid laid(cache, layout, 8, 6);
    Cache now = cache;
    for (uint32_t n : {1, 4, 1}) {
      NewRows rows(random, now, n);
      ASSERT_EQ(rows.append(laid.view), KVC_OK) << lastError();
      Cache next = rows.grown();
      Call call(random, next, 4, n, KVC_BF16);
      ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
      auto out = call.out;
      Laid fresh(next, Layout::HeadsFirst); // as if it had been there
      ASSERT_EQ(call.run(fresh.view), KVC_OK) << lastError();
      EXPECT_EQ(call.out, out) << int(layout);
      now = next;
    }
  }
}

TEST(Append, MakesMembersOfAMergedCache) {
  Random random(3);
  Cache cache = randomCache(random, 2, 2, 8, KVC_F32, 30);
  Members members(random, cache, 20);
  NewRows rows(random, cache, 2);
  rows.kBytes.resize(rows.kBytes.size());
  std::memset(rows.kBytes.data(), 0, 8 * sizeof(float)); // a key of length 0
  auto counts = members.counts;
  for (int32_t &count : counts)
    count = members.counts[size_t(&count - counts.data())] =
        std::min(count, 18);
  Laid laid(cache, Layout::Compacted, 1, 2);
  laid.view.members = &members.table;
  ASSERT_EQ(rows.append(laid.view), KVC_OK) << lastError();
  Cache got = laid.read();
  for (uint32_t list = 0; list < 4; ++list) {
    EXPECT_EQ(members.counts[list], counts[list] + 2);
    for (uint32_t j = 0; j < 2; ++j) {
      size_t entry = list * 20 + uint32_t(counts[list]) + j;
      size_t row = cache.all[list].k.size() + j;
      auto key = rows.k[list * 2 + j];
      if (list == 0 && j == 0)
        key.assign(8, 0);
      EXPECT_EQ(members.rows[entry], int32_t(row));
      EXPECT_EQ(members.positions[entry], cache.lengths[list / 2] + int32_t(j));
      double squares = 0;
      for (uint32_t d = 0; d < 8; ++d) {
        EXPECT_NEAR(got.all[list].k[row][d] * members.norms[entry], key[d],
                    1e-6);
        squares += double(key[d]) * key[d];
      }
      EXPECT_FLOAT_EQ(members.norms[entry], float(std::sqrt(squares)));
      EXPECT_EQ(got.all[list].v[row], rows.v[list * 2 + j]);
    }
  }
}

// Heads share a count, which is the length: it is set once.
TEST(Append, CountsTokensOfAnUncompressedCache) {
  Random random(4);
  Cache cache = wholeCache(random, 2, 2, 8, KVC_F16, 30);
  NewRows rows(random, cache, 3);
  for (bool both : {false, true}) {
    Laid laid(cache, Layout::PagesNHD, 4, 3);
    laid.view.positions = {};
    laid.view.counts = {laid.lengths.data(), 1, 0};
    if (!both)
      laid.view.lengths = nullptr;
    ASSERT_EQ(rows.append(laid.view), KVC_OK) << lastError();
    for (int32_t &count : laid.counts)
      count += 3; // those that read() goes by
    expectSame(laid.read(), rows.grown());
  }
}

namespace {

/// Two sequences of two heads of three rows in pages of two, room for one more row.
class AppendErrors : public CacheErrors {
public:
  using CacheErrors::refused;

  Random random{5};
  Cache cache = [this] {
    Cache cache = wholeCache(random, 2, 2, 8, KVC_F32, 1);
    for (uint32_t i = 0; i < 4; ++i) {
      cache.lengths[i / 2] = 10;
      cache.all[i].positions = {2, 5, 8};
      for (auto *rows : {&cache.all[i].k, &cache.all[i].v})
        rows->assign(3, randomRow(random, 8, KVC_F32));
    }
    return cache;
  }();
  NewRows rows{random, cache, 1};
  Laid laid{cache, Layout::PagesNHD, 2, 1};

  void
  SetUp() override { // a number for each row, as in other tests for each slot
    laid.positions = {2, 5, 8, 0, 2, 5, 8, 0, 2, 5, 8, 0, 2, 5, 8, 0};
    laid.view.positions = {laid.positions.data(), 8, 4, 1, 0};
    laid.view.positions_by_slot = 0;
  }
  void refused(kvc_status status, const std::string &text) override {
    auto memory = laid.memory;
    auto counts = laid.counts, positions = laid.positions,
         lengths = laid.lengths;
    EXPECT_EQ(rows.append(laid.view), status);
    EXPECT_EQ(lastError(), text);
    EXPECT_EQ(laid.memory, memory);
    EXPECT_EQ(laid.counts, counts);
    EXPECT_EQ(laid.lengths, lengths);
    EXPECT_EQ(laid.positions, positions);
  }
};

} // namespace

TEST_F(AppendErrors, Calls) {
  EXPECT_EQ(kvc_append(nullptr), KVC_BAD_ARGUMENT);
  EXPECT_EQ(lastError(), "args must not be null");
  rows.args.target = KVC_CUDA;
  rows.args.device = -1;
  refused(KVC_BAD_ARGUMENT, "device must be 0 to 63, got -1");
  rows.args.target = kvc_target_kind(7);
  refused(KVC_BAD_ARGUMENT,
          "target must be 0 (host), 1 (CUDA) or 2 (PTX), got 7");
  rows.args.target = KVC_HOST;
  rows.args.rows = 0;
  refused(KVC_BAD_ARGUMENT, "rows must be 1 to 2147483647, got 0");
  rows.args.rows = 1;
  const void *k = rows.args.k.data;
  rows.args.k.data = reinterpret_cast<void *>(6);
  refused(KVC_MISALIGNED, "k must be aligned to 4 bytes, got 0x6");
  rows.args.k.data = k;
  rows.args.v.data = nullptr;
  refused(KVC_BAD_ARGUMENT, "v must not be null");
  rows.args.k.data = nullptr;
  refused(KVC_BAD_ARGUMENT, "k must not be null");
  rows.args.struct_size = 0;
  refused(KVC_ABI_MISMATCH, "args.struct_size must be at least 8, got 0");
}

TEST_F(AppendErrors, Arrays) {
  refused(
      laid.counts[3], 6, KVC_EXCEEDS_LIMITS,
      "sequence 1, head 1: offset, count and 1 new rows must be 0 or more and "
      "end "
      "in front of slot 6, got 0 and 6");
  refused(
      laid.counts[3], -1, KVC_EXCEEDS_LIMITS,
      "sequence 1, head 1: offset, count and 1 new rows must be 0 or more and "
      "end "
      "in front of slot 6, got 0 and -1");
  refused(laid.lengths[1], INT32_MAX, KVC_EXCEEDS_LIMITS,
          "sequence 1: the length and 1 new rows must be 0 to 2147483647, got "
          "2147483647");
  refused(laid.lengths[1], 8, KVC_BAD_ARGUMENT,
          "sequence 1, head 0: the last position must be below the length (8), "
          "got 8");
  refused(
      laid.table[1], 99, KVC_BAD_ARGUMENT,
      "sequence 0, head 0: entries of cache.table must be 0 to 8, got 99 at 1");
  laid.view.positions_by_slot = 1; // read through the table
  refused(
      laid.table[0], -99, KVC_BAD_ARGUMENT,
      "sequence 0, head 0: entries of cache.table must be 0 to 8, got -99 at "
      "0");
  laid.view.positions = {};
  refused(KVC_BAD_ARGUMENT,
          "sequence 0, head 0: where rows have no positions, a "
          "count must be the length (10), got 3");
}

// Written over each other.
TEST_F(AppendErrors, Overlaps) {
  kvc_cache_view right = laid.view;
  laid.view.k.row_stride = 7;
  refused(KVC_BAD_ARGUMENT,
          "rows that are written must not overlap: row_stride must "
          "be at least head_dim (8), got 7");
  laid.view = right;
  laid.view.counts.batch_stride = 0;
  refused(KVC_BAD_ARGUMENT, "counts that are written must not be shared: "
                            "cache.counts.batch_stride must not be 0");
  laid.view = right;
  kvc_plane &positions = laid.view.positions; // counts are by head
  for (auto [stride, name] : {std::pair{&positions.row_stride, "row_stride"},
                              {&positions.head_stride, "head_stride"},
                              {&positions.batch_stride, "batch_stride"}}) {
    *stride = 0;
    refused(KVC_BAD_ARGUMENT, "positions that are written must not be shared: "
                              "cache.positions." +
                                  std::string(name) + " must not be 0");
    laid.view = right;
  }
  laid.view.v.head_stride = 0; // both heads at the same place
  refused(KVC_EXCEEDS_LIMITS, "sequence 0, head 0: offset, count and 1 new "
                              "rows must be 0 or more and end "
                              "in front of slot 0, got 0 and 3");
}

// Where the next head begins, a head ends; but not behind the memory.
TEST_F(AppendErrors, OffsetsOfOthers) {
  Laid ragged(cache, Layout::PagesRagged, 2, 1);
  ragged.view.positions = laid.view.positions;
  ragged.view.positions_by_slot = 0;
  ragged.offsets[1] = INT32_MAX;
  ragged.counts[0] = 100;
  EXPECT_EQ(rows.append(ragged.view), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(lastError(),
            "sequence 0, head 0: offset, count and 1 new rows must be 0 "
            "or more and end in front of slot 10, got 0 and 100");
  ragged.counts[0] = 3;
  EXPECT_EQ(rows.append(ragged.view), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(lastError(),
            "sequence 0, head 1: offset, count and 1 new rows must be 0 "
            "or more and end in front of slot 10, got 2147483647 and 3");
  ragged.offsets[1] = 3; // no room in between
  EXPECT_EQ(rows.append(ragged.view), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(lastError(),
            "sequence 0, head 0: offset, count and 1 new rows must be 0 "
            "or more and end in front of slot 3, got 0 and 3");
}

// Three entries a sequence; the next row lies in the page of the second.
TEST_F(AppendErrors, SharedPages) {
  laid.table = {0, 1, 2, 3, 1, 5};
  refused(KVC_BAD_ARGUMENT, "page 1 is written and must occur once, got it for "
                            "sequence 1, head 0 and for sequence 0, head 0");
  laid.table = {0, 1, 2, 1, 4, 5}; // older rows of another sequence
  refused(KVC_BAD_ARGUMENT, "page 1 is written and must occur once, got it for "
                            "sequence 0, head 0 and for sequence 1, head 0");
  laid.table = {0, 1, 4,
                0, 4, 1}; // a prefix; what stands behind the rows is free
  EXPECT_EQ(rows.append(laid.view), KVC_OK) << lastError();
}

// Two heads' pages, and a key's and a value's.
TEST(AppendPages, HaveOneOwner) {
  Random random(6);
  Cache cache = wholeCache(random, 1, 2, 8, KVC_F32, 1);
  NewRows rows(random, cache, 1);
  Laid byHead(cache, Layout::PagesByHead, 4, 1);
  ASSERT_EQ(rows.append(byHead.view), KVC_OK) << lastError();
  byHead.table[byHead.view.table_entries] = byHead.table[0];
  EXPECT_EQ(rows.append(byHead.view), KVC_BAD_ARGUMENT);
  EXPECT_EQ(lastError(),
            "page " + std::to_string(byHead.table[0]) +
                " is written and must occur once, got it for sequence "
                "0, head 1 and for sequence 0, head 0");
  Laid apart(cache, Layout::PagesKV, 4, 1);
  ASSERT_EQ(rows.append(apart.view), KVC_OK) << lastError();
  apart.vTable[0] = apart.table[0];
  EXPECT_EQ(rows.append(apart.view), KVC_BAD_ARGUMENT);
  // In pools of their own they have nothing to do with each other.
  std::vector<std::byte> pool(apart.memory.size());
  apart.view.v.data = pool.data();
  EXPECT_EQ(rows.append(apart.view), KVC_OK) << lastError();
  // Nor have pages 2^16 apart.
  Cache two = wholeCache(random, 2, 1, 1, KVC_F32, 1);
  NewRows newest(random, two, 1);
  Laid far(two, Layout::PagesNHD, 1, 1);
  far.view.positions = {};
  far.view.pages = 1 << 17;
  std::vector<float> keys(1 << 17), values(1 << 17);
  far.view.k.data = keys.data();
  far.view.v.data = values.data();
  far.table[1] = 5, far.table[1 + far.view.table_entries] = 5 + (1 << 16);
  EXPECT_EQ(newest.append(far.view), KVC_OK) << lastError();
  EXPECT_EQ(values[5 + (1 << 16)], newest.v[1][0]);
}

TEST(AppendMembers, HaveRoom) {
  Random random(7);
  Cache cache = wholeCache(random, 1, 1, 8, KVC_F32, 5);
  Members members(random, cache, 4);
  members.counts[0] = 4;
  NewRows rows(random, cache, 1);
  Laid laid(cache, Layout::HeadsFirst, 1, 1);
  laid.view.members = &members.table;
  EXPECT_EQ(rows.append(laid.view), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(lastError(),
            "sequence 0, head 0: members and 1 new ones must be 0 to 4 "
            "(their capacity), got 4");
}
