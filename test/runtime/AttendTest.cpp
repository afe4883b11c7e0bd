// Attention over every view, against softmax(scale q k^T) v in double.

#include "runtime/attend/Attend.h"
#include "test/runtime/Allocations.h"
#include "test/runtime/AttendJudge.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kvc::rt;
using namespace kvc::test;

static void run(const Call &call, TileKernel kernel) {
  AttendCall checked(call.args);
  Attend(checked).run(kernel);
}

TEST(Attend, IsSoftmaxOverTheRowsThatAreThere) {
  Random random(1);
  forShapes(random, {1, 8, 80, 128, 256}, 150,
            [](Call &call, const Cache &cache, const Laid &laid) {
              ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
              expectRight(call, cache);
            });
}

// The kind of a view, its strides, the size of its pages: only where rows lie.
TEST(Attend, GivesTheSameBytesInEveryView) {
  Random random(2);
  for (kvc_dtype dtype : dtypes)
    for (uint32_t dim : {8, 80}) {
      Cache cache = randomCache(random, 3, 2, dim, dtype, 200);
      Call call(random, cache, 4, 3, dtype);
      Laid first(cache, Layout::HeadsFirst);
      ASSERT_EQ(call.run(first.view), KVC_OK) << lastError();
      expectRight(call, cache);
      auto out = call.out;
      auto lse = call.lse;
      for (Layout layout : layouts)
        for (uint32_t pageRows : {1, 2, 16, 256}) {
          if (pageRows > 1 && !isPaged(layout))
            continue;
          Laid laid(cache, layout, pageRows);
          ASSERT_EQ(call.run(laid.view), KVC_OK)
              << int(layout) << ": " << lastError();
          EXPECT_EQ(call.out, out) << int(layout) << " pages of " << pageRows;
          EXPECT_EQ(call.lse, lse) << int(layout) << " pages of " << pageRows;
        }
    }
}

// Keys are split: parts are put together by whoever is last, in one order.
TEST(Attend, GivesTheSameBytesOnAnyNumberOfThreads) {
  Random random(3);
  Cache cache = randomCache(random, 2, 2, 64, KVC_F32, 8000);
  cache.head(0, 1) = {}; // a head without rows beside heads of several splits
  for (uint32_t n : {1, 3, 40}) { // 40 queries of 4 heads: not split
    Call call(random, cache, 4, n, KVC_F32);
    Laid laid(cache, Layout::Compacted);
    call.args.threads = 1;
    ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
    if (n == 1)
      expectRight(call, cache);
    auto out = call.out;
    for (unsigned threads : {0u, 2u, 4u, 1000u}) {
      call.args.threads = threads;
      ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
      EXPECT_EQ(call.out, out) << threads;
    }
    // Nor does the size of the workspace.
    call.args.max_rows = 8000;
    ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
    EXPECT_EQ(call.out, out);
  }
}

TEST(Attend, IsRightOnEveryVectorUnit) {
  Random random(4);
  ASSERT_FALSE(tileKernels().empty());
  for (TileKernel kernel : tileKernels())
    for (kvc_dtype dtype : dtypes)
      for (uint32_t dim : {1, 3, 8, 20, 80, 128}) {
        Cache cache = randomCache(random, 1, 2, dim, dtype, 150);
        Call call(random, cache, 3, 2, KVC_F32);
        Laid laid(cache, Layout::HeadsFirst);
        ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
        std::fill(call.out.begin(), call.out.end(), std::byte{0xff});
        run(call, kernel);
        expectRight(call, cache);
      }
}

TEST(Attend, WidensEveryHalf) {
  Random random(5);
  for (TileKernel kernel : tileKernels())
    for (kvc_dtype dtype : {KVC_F16, KVC_BF16}) {
      // One row: the output is its value, whatever the weight.
      Cache cache = wholeCache(random, 1, 1, 256, dtype, 1);
      Call call(random, cache, 1, 1, KVC_F32);
      Laid laid(cache, Layout::HeadsFirst);
      ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
      for (uint32_t high = 0; high < 256; ++high) {
        auto *v = static_cast<uint16_t *>(laid.view.v.data);
        for (uint32_t low = 0; low < 256; ++low)
          v[low] = uint16_t(high * 256 + low);
        run(call, kernel);
        auto want =
            widened(static_cast<std::byte *>(laid.view.v.data), 256, dtype);
        auto got = call.outRow(0);
        for (uint32_t i = 0; i < 256; ++i)
          if (std::isnan(want[i]))
            EXPECT_TRUE(std::isnan(got[i])) << high * 256 + i;
          else
            EXPECT_EQ(got[i], want[i]) << high * 256 + i;
      }
    }
}

TEST(Attend, GivesZeroWhereAQuerySeesNoRow) {
  Random random(6);
  Cache cache = wholeCache(random, 1, 2, 8, KVC_F32, 1);
  cache.lengths[0] = 10;
  cache.head(0, 0).positions = {8}; // of four queries, at 6 to 9, two see it
  cache.head(0, 1) = {};
  Call call(random, cache, 1, 4, KVC_F32);
  Laid laid(cache, Layout::Compacted, 1, 1);
  ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
  expectRight(call, cache);
  for (size_t i : {0, 1, 4, 5, 6, 7}) {
    EXPECT_EQ(call.outRow(i), std::vector<float>(8)) << i;
    EXPECT_EQ(call.lse[i], float(none)) << i;
  }
  EXPECT_EQ(call.outRow(2), cache.head(0, 0).v[0]);
}

// A token that a query does not see does not reach it, whatever it holds.
TEST(Attend, KeepsTheFutureOut) {
  Random random(7);
  Cache cache = wholeCache(random, 1, 1, 8, KVC_F32, 100);
  Call call(random, cache, 2, 2, KVC_F32);
  Cache before = cache;
  cache.head(0, 0).v.back().assign(8, INFINITY);
  cache.head(0, 0).k.back().assign(8, NAN);
  Laid laid(cache, Layout::HeadsFirst);
  ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
  for (size_t i : {0, 2}) { // the first of two queries
    auto [want, lse] =
        judged(call, rowsOf(before.head(0, 0)), i, cache.lengths[0]);
    for (uint32_t d = 0; d < 8; ++d)
      EXPECT_NEAR(call.outRow(i)[d], want[d], 5e-6);
    EXPECT_TRUE(std::isnan(call.outRow(i + 1)[0])); // and NaN is not hidden
  }
}

TEST(Attend, ReadsMembersOfMergedRows) {
  Random random(8);
  for (kvc_dtype dtype : dtypes)
    for (Layout layout : {Layout::Compacted, Layout::PagesByHead}) {
      Cache cache = randomCache(random, 2, 2, 16, dtype, 300);
      Members members(random, cache, 250);
      Call call(random, cache, 4, 5, KVC_F32);
      Laid laid(cache, layout, 8);
      laid.view.members = &members.table;
      call.args.rope = members.rope.data();
      call.args.rope_positions = 300;
      ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
      expectRight(call, cache, [&](uint32_t s, uint32_t g) {
        return members.keysOf(cache, s, g);
      });
    }
}

// Heads share a count, which is the length; there is nothing else.
TEST(Attend, TakesAnUncompressedCacheByItsCountsAlone) {
  Random random(9);
  Cache cache = wholeCache(random, 3, 2, 16, KVC_BF16, 70);
  Call call(random, cache, 2, 3, KVC_BF16);
  Laid laid(cache, Layout::TokensFirst);
  laid.view.counts = {laid.lengths.data(), 1, 0};
  laid.view.lengths = nullptr;
  laid.view.positions = {};
  ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
  expectRight(call, cache);
}

// Asked once, with the largest numbers, it is enough for all.
TEST(Attend, NeedsMoreWorkspaceForMore) {
  Random random(12);
  Cache cache = randomCache(random, 2, 2, 8, KVC_F32, 30);
  Laid laid(cache, Layout::HeadsFirst);
  for (uint32_t group : {1, 7, 100}) {
    Call call(random, cache, group, 1, KVC_F32);
    call.args.cache = &laid.view;
    size_t last = 0;
    for (uint32_t queries : {1, 2, 3, 4, 8, 9, 10, 16, 17, 64, 65, 1000}) {
      size_t bytes = 0;
      call.args.queries = queries;
      for (uint32_t rows : {1u, 2048u, 2049u, 100000u}) {
        call.args.max_rows = rows;
        size_t before = bytes;
        ASSERT_EQ(kvc_attend_workspace(&call.args, &bytes), KVC_OK);
        EXPECT_GE(bytes, before);
        EXPECT_EQ(bytes == 0, rows <= 2048 || group == 100) << rows;
      }
      EXPECT_GE(bytes, last) << queries;
      last = bytes;
    }
  }
}

TEST(Attend, AllocatesNothing) {
  Random random(11);
  Cache cache = randomCache(random, 2, 2, 64, KVC_F32, 8000);
  Call call(random, cache, 4, 1, KVC_F32);
  Laid laid(cache, Layout::PagesNHD, 16);
  ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
  for (unsigned threads : {1u, 4u}) {
    call.args.threads = threads;
    size_t before = allocations;
    kvc_status status = kvc_attend(&call.args);
    EXPECT_EQ(allocations - before, 0u);
    EXPECT_EQ(status, KVC_OK);
  }
}
