// kvc_append by its PTX: the host's bytes, and what is not done where there is no room.

#include "test/ptx/PtxCalls.h"

#include <gtest/gtest.h>

using namespace kvc::test;

namespace {

using PtxAppend = PtxCalls;

} // namespace

TEST_F(PtxAppend, WritesWhatTheHostWrites) {
  for (Layout layout : layouts)
    for (uint32_t n : {1, 3, 9}) {
      SCOPED_TRACE(testing::Message() << int(layout) << ", " << n << " rows");
      Cache cache = randomCache(random, 2, 3, 8, dtypes[n % 3], 40);
      NewRows rows(random, cache, n);
      Laid laid(cache, layout, isPaged(layout) ? 4 : 1, n);
      Laid hosts(cache, layout, isPaged(layout) ? 4 : 1, n);
      rows.args.target = KVC_HOST;
      ASSERT_EQ(rows.append(hosts.view), KVC_OK) << lastError();
      ASSERT_EQ(append(rows, laid), KVC_OK) << lastError();
      EXPECT_EQ(status, 0);
      expectSame(laid.read(), rows.grown());
      EXPECT_EQ(laid.memory, hosts.memory);
      EXPECT_EQ(laid.counts, hosts.counts);
      EXPECT_EQ(laid.lengths, hosts.lengths);
      EXPECT_EQ(laid.positions, hosts.positions);
    }
}

TEST_F(PtxAppend, ThenAttend) {
  for (Layout layout : layouts) {
    Cache cache = randomCache(random, 2, 2, 16, KVC_BF16, 60);
    Laid laid(cache, layout, 8, 6);
    Cache now = cache;
    for (uint32_t n : {1, 4, 1}) {
      NewRows rows(random, now, n);
      ASSERT_EQ(append(rows, laid), KVC_OK) << lastError();
      Cache next = rows.grown();
      Call call(random, next, 4, n, KVC_F32);
      ASSERT_EQ(attend(call, laid), KVC_OK) << lastError();
      expectRight(call, next, weightRounding(KVC_BF16));
      now = next;
    }
  }
  EXPECT_EQ(status, 0);
}

TEST_F(PtxAppend, MakesMembersOfAMergedCache) {
  for (kvc_dtype dtype : dtypes) {
    Cache cache = randomCache(random, 2, 2, 40, dtype, 30);
    NewRows rows(random, cache, 2);
    std::memset(rows.kBytes.data(), 0, 40 * sizeof(float)); // a key of length 0
    Members members(random, cache, 20);
    for (int32_t &count : members.counts)
      count = std::min(count, 18);
    Members hostMembers = members;
    hostMembers.table.rows = hostMembers.rows.data();
    hostMembers.table.positions = hostMembers.positions.data();
    hostMembers.table.norms = hostMembers.norms.data();
    hostMembers.table.counts = hostMembers.counts.data();
    Laid laid(cache, Layout::Compacted, 1, 2),
        hosts(cache, Layout::Compacted, 1, 2);
    laid.view.members = &members.table;
    hosts.view.members = &hostMembers.table;
    rows.args.target = KVC_HOST;
    ASSERT_EQ(rows.append(hosts.view), KVC_OK) << lastError();
    ASSERT_EQ(append(rows, laid), KVC_OK) << lastError();
    EXPECT_EQ(status, 0);
    EXPECT_EQ(members.counts, hostMembers.counts);
    EXPECT_EQ(members.rows, hostMembers.rows);
    EXPECT_EQ(members.positions, hostMembers.positions);
    for (size_t i = 0; i < members.norms.size(); ++i)
      if (!std::isnan(hostMembers.norms[i])) // a square root of other roundings
        EXPECT_NEAR(members.norms[i], hostMembers.norms[i],
                    1e-6 * hostMembers.norms[i]);
    Cache got = laid.read(), want = hosts.read();
    for (size_t list = 0; list < want.all.size(); ++list) {
      EXPECT_EQ(got.all[list].v, want.all[list].v);
      for (size_t r = 0; r < want.all[list].k.size(); ++r)
        for (uint32_t d = 0; d < 40; ++d)
          EXPECT_NEAR(got.all[list].k[r][d], want.all[list].k[r][d],
                      spacing(dtype));
    }
  }
}

// A sequence that has no room in one head gets no row in any; others do.
TEST_F(PtxAppend, DoesNothingToASequenceWithoutRoom) {
  auto expect = [&](auto spoil, int32_t bits, bool merged = false) {
    Cache cache = randomCache(random, 2, 2, 8, KVC_BF16, 20);
    NewRows rows(random, cache, 3);
    Laid laid(cache, Layout::PagesByHead, 4, 3);
    Members members(random, cache, 20);
    for (int32_t &count : members.counts)
      count = std::min(count, 10);
    if (merged)
      laid.view.members = &members.table;
    spoil(laid, members);
    auto counts = laid.counts, lengths = laid.lengths,
         memberCounts = members.counts;
    auto memory = laid.memory;
    status = 0;
    ASSERT_EQ(append(rows, laid), KVC_OK) << lastError();
    EXPECT_EQ(status, bits);
    for (uint32_t i = 0; i < 2; ++i) { // the second sequence
      EXPECT_EQ(laid.counts[i], counts[i]);
      EXPECT_EQ(laid.counts[2 + i], counts[2 + i] + 3);
      if (merged)
        EXPECT_EQ(members.counts[2 + i], memberCounts[2 + i] + 3);
      if (merged)
        EXPECT_EQ(members.counts[i], memberCounts[i]);
    }
    EXPECT_EQ(laid.lengths[0], lengths[0]);
    EXPECT_EQ(laid.lengths[1], lengths[1] + 3);
    size_t changed = 0;
    for (size_t i = 0; i < memory.size(); i += 2)
      changed += std::memcmp(&memory[i], &laid.memory[i], 2) != 0;
    EXPECT_LE(changed, 2u * 3 * 2 * 8);
  };
  auto slots = [](const Laid &laid) {
    return int32_t(laid.view.table_entries * laid.view.page_rows);
  };
  expect([&](Laid &l, Members &) { l.counts[1] = slots(l) - 2; },
         KVC_DATA_CAPACITY);
  expect([&](Laid &l, Members &) { l.counts[1] = -1; }, KVC_DATA_CACHE);
  expect([&](Laid &l, Members &) { l.counts[0] = INT32_MAX; }, KVC_DATA_CACHE);
  expect([&](Laid &l, Members &) { l.lengths[0] = INT32_MAX - 2; },
         KVC_DATA_CACHE);
  expect(
      [&](Laid &l, Members &) {
        uint32_t last = uint32_t(l.counts[1] + 2) / l.view.page_rows;
        l.view.table.data[l.view.table.head_stride + last] =
            int32_t(l.view.pages);
      },
      KVC_DATA_CACHE);
  expect([&](Laid &, Members &m) { m.counts[1] = 18; }, KVC_DATA_CAPACITY,
         true);
  expect([&](Laid &, Members &m) { m.counts[1] = 21; }, KVC_DATA_CACHE, true);
}

// What the host refuses is reported, and nothing else: an entry of a table becomes
// another one, of rows, of new ones, or of slots that nobody uses yet. But two entries
// of older rows in one list are not looked for.
TEST_F(PtxAppend, ReportsWrittenPagesThatOccurTwice) {
  size_t reported = 0, right = 0;
  for (Layout layout : layouts)
    for (uint32_t i = 0; i < 40 && isPaged(layout); ++i) {
      SCOPED_TRACE(testing::Message() << int(layout) << ", " << i);
      uint32_t n = 1 + i % 5;
      Cache cache = randomCache(random, 2, 2, 8, KVC_BF16, 20);
      NewRows rows(random, cache, n);
      Laid laid(cache, layout, 4, n), hosts(cache, layout, 4, n);
      size_t from = random() % laid.table.size(),
             to = random() % laid.table.size();
      laid.table[to] = hosts.table[to] = laid.table[from];
      rows.args.target = KVC_HOST;
      bool wrong = rows.append(hosts.view) == KVC_BAD_ARGUMENT;
      std::string said = wrong ? lastError() : "";
      if (said.find("must differ") != said.npos)
        continue;
      status = 0;
      ASSERT_EQ(append(rows, laid), KVC_OK) << lastError();
      EXPECT_EQ(status, wrong ? KVC_DATA_CACHE : 0) << said;
      ++(wrong ? reported : right);
    }
  EXPECT_GE(reported, 40u);
  EXPECT_GE(right, 40u);
}

TEST_F(PtxAppend, RefusesMoreRowsThanAGridHas) {
  Cache cache = randomCache(random, 2, 2, 8, KVC_BF16, 20);
  Laid laid(cache, Layout::HeadsFirst);
  NewRows rows(random, cache, 1);
  rows.args.rows = 1 << 30;
  EXPECT_EQ(append(rows, laid), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(
      lastError(),
      "batch * kv_heads * rows must be at most 2147483647, got 4294967296");
}
