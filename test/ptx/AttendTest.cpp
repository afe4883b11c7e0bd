// kvc_attend by its PTX: every view, keys split and not, few queries and many, against
// the same judge as the host's.

#include "ptx/PTXDevice.h"
#include "ptx/profile/Profiler.h"
#include "runtime/attend/DeviceCut.h"
#include "runtime/device/ViewKernels.h"
#include "test/matrix/GuardedMemory.h"
#include "test/ptx/PtxCalls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace kvc;
using namespace kvc::rt;
using namespace kvc::test;

namespace {

using PtxAttend = PtxCalls;

/// What a view reads of one head: all rows of `rows`, in pages one behind the other by a table.
struct PagedHead {
  PagedHead(kvc_cache_view &view, const GuardedMemory &rows, uint32_t dim,
            uint32_t pageRows, int32_t count)
      : table(rows.bytes / (pageRows * dim * 2)), count(count), length(count) {
    std::iota(table.begin(), table.end(), 0);
    auto pages = uint32_t(table.size());
    view.k = view.v = {rows.data, 0, dim, dim, pageRows * dim};
    view.table = {table.data(), pages, 0};
    view.table_entries = view.pages = pages;
    view.counts = {&this->count, 1, 0};
    view.offsets = {&offset, 1, 0};
    view.lengths = &length;
    view.positions = {};
  }
  PagedHead(const PagedHead &) = delete;

  std::vector<int32_t> table;
  int32_t count, offset = 0, length;
};

} // namespace

TEST_F(PtxAttend, IsSoftmaxOverTheRowsThatAreThere) {
  forShapes(random, {1, 8, 40, 80, 128, 256}, 90,
            [&](Call &call, const Cache &cache, const Laid &laid) {
              ASSERT_EQ(attend(call, laid), KVC_OK) << lastError();
              expectRight(call, cache, weightRounding(cache.dtype));
              EXPECT_EQ(status, 0);
            });
}

// Rows that begin at multiples of 16 bytes are copied, others element by element.
TEST_F(PtxAttend, GivesTheSameBytesInEveryView) {
  for (kvc_dtype dtype : dtypes)
    for (uint32_t dim : {8, 36}) {
      Cache cache = randomCache(random, 2, 2, dim, dtype, 120);
      Call call(random, cache, 4, 3, dtype);
      Laid first(cache, Layout::HeadsFirst);
      ASSERT_EQ(attend(call, first), KVC_OK) << lastError();
      expectRight(call, cache, weightRounding(dtype));
      auto out = call.out;
      auto lse = call.lse;
      for (Layout layout : layouts)
        for (uint32_t pageRows : {1, 16}) {
          if (pageRows > 1 && !isPaged(layout))
            continue;
          Laid laid(cache, layout, pageRows);
          call.args.max_rows = 120; // splits do not follow the view's room
          ASSERT_EQ(attend(call, laid), KVC_OK) << int(layout) << lastError();
          EXPECT_EQ(call.out, out) << int(layout) << " pages of " << pageRows;
          EXPECT_EQ(call.lse, lse) << int(layout) << " pages of " << pageRows;
        }
    }
  EXPECT_EQ(status, 0);
}

// Heads of no row, of one split and of several; few query rows and many.
TEST_F(PtxAttend, SplitsTheKeysOfLongHeads) {
  for (kvc_dtype dtype : dtypes)
    for (uint32_t n : {1, 2, 5, 40}) {
      Cache cache = randomCache(random, 1, 3, 16, dtype, 1500);
      cache.head(0, 1) = {};
      Call call(random, cache, 4, n, KVC_F32);
      Laid laid(cache, Layout::PagesNHD, 8);
      for (uint32_t most : {0, 1500}) {
        call.args.max_rows = most;
        ASSERT_EQ(attend(call, laid), KVC_OK) << lastError();
        expectRight(call, cache, weightRounding(dtype));
      }
    }
  EXPECT_EQ(status, 0);
}

// A prompt: blocks of query rows that end where they see nothing more.
TEST_F(PtxAttend, SweepsAPromptCausally) {
  for (kvc_dtype dtype : {KVC_F16, KVC_BF16})
    for (uint32_t dim : {20, 64, 128})
      for (uint32_t n : {40, 70, 150}) { // of a prompt, the last ones or all
        Cache cache = wholeCache(random, 2, 2, dim, dtype, 150);
        for (int32_t &length : cache.lengths)
          n = std::min(n, uint32_t(length));
        Call call(random, cache, 3, n, dtype, true);
        Laid laid(cache, Layout::TokensFirst);
        for (bool positions : {true, false}) {
          if (!positions)
            laid.view.positions = {};
          ASSERT_EQ(attend(call, laid), KVC_OK) << lastError();
          expectRight(call, cache, weightRounding(dtype));
        }
      }
  EXPECT_EQ(status, 0);
}

// More tiles than are in the block's memory at once, of which rows see a part.
TEST_F(PtxAttend, MultipliesTogetherOverManyTiles) {
  for (kvc_dtype dtype : {KVC_F16, KVC_BF16})
    for (uint32_t dim : {64, 128, 256}) {
      Cache cache = wholeCache(random, 1, 1, dim, dtype, 700);
      while (cache.lengths[0] < 600)
        cache = wholeCache(random, 1, 1, dim, dtype, 700);
      Call call(random, cache, 2, 90, dtype, true);
      for (Layout layout : {Layout::TokensFirst, Layout::PagesNHD}) {
        Laid laid(cache, layout, layout == Layout::PagesNHD ? 64 : 1);
        ASSERT_EQ(attend(call, laid), KVC_OK) << lastError();
        expectRight(call, cache, weightRounding(dtype));
      }
    }
  EXPECT_EQ(status, 0);
}

// Whole tiles of what every row sees come by the bulk copy engine, from every view whose rows
// or pages are made for it; the result is that of other views to the byte.
TEST_F(PtxAttend, BringsTilesByTheBulkCopyEngine) {
  for (kvc_dtype dtype : {KVC_F16, KVC_BF16})
    for (uint32_t dim : {64, 128, 256}) {
      if (dtype == KVC_F16 && dim != 128)
        continue;
      Cache cache = randomCache(random, 2, 2, dim, dtype, 400);
      while (std::ranges::count_if(cache.all, [](const Head &head) {
               return head.positions.size() > 200;
             }) < 2)
        cache = randomCache(random, 2, 2, dim, dtype, 400);
      uint32_t n = 70;
      for (int32_t length : cache.lengths)
        n = std::min(n, uint32_t(length));
      Call call(random, cache, 3, std::max(n, 44u), dtype);
      auto &device = dynamic_cast<ptx::PTXDevice &>(
          ViewKernels::on(KVC_PTX, 0, dtype, dim).loadedDevice());
      auto bulkBytes = [&](const Laid &laid) {
        ptx::Profiler profiler({ptx::findCard("h100"), /*run=*/0, {}});
        device.watch(&profiler);
        EXPECT_EQ(attend(call, laid), KVC_OK) << lastError();
        device.watch(nullptr);
        return profiler.launches().front().counters.bulkBytes;
      };
      call.args.max_rows = 400;
      Laid first(cache, Layout::PagesNHD, 8); // pages smaller than a box
      EXPECT_EQ(bulkBytes(first), 0);
      expectRight(call, cache, weightRounding(dtype));
      auto out = call.out;
      auto lse = call.lse;
      for (Layout layout : layouts)
        for (uint32_t pageRows : {1, 16, 128}) {
          if ((pageRows > 1) != isPaged(layout))
            continue;
          Laid laid(cache, layout, pageRows);
          EXPECT_GT(bulkBytes(laid), 0) << int(layout);
          EXPECT_EQ(call.out, out) << int(layout) << " pages of " << pageRows;
          EXPECT_EQ(call.lse, lse) << int(layout) << " pages of " << pageRows;
        }
      // Rows that begin elsewhere in memory, and more room than rows.
      Laid laid(cache, Layout::HeadsFirst, 1, /*room=*/200);
      EXPECT_GT(bulkBytes(laid), 0);
      EXPECT_EQ(call.out, out);
    }
  EXPECT_EQ(status, 0);
}

TEST_F(PtxAttend, GivesZeroWhereAQuerySeesNoRow) {
  Cache cache = wholeCache(random, 1, 2, 8, KVC_F32, 1);
  cache.lengths[0] = 10;
  cache.head(0, 0).positions = {8}; // of four queries, at 6 to 9, two see it
  cache.head(0, 1) = {};
  Call call(random, cache, 1, 4, KVC_F32);
  Laid laid(cache, Layout::Compacted, 1, 1);
  ASSERT_EQ(attend(call, laid), KVC_OK) << lastError();
  expectRight(call, cache);
  EXPECT_EQ(status, 0);
}

TEST_F(PtxAttend, ReadsMembersOfMergedRows) {
  for (kvc_dtype dtype : dtypes)
    for (uint32_t n : {1, 5, 40}) {
      Cache cache = randomCache(random, 2, 2, 16, dtype, 300);
      Members members(random, cache, 250);
      Call call(random, cache, 4, n, KVC_F32);
      Laid laid(cache, n == 5 ? Layout::PagesByHead : Layout::Compacted, 8);
      laid.view.members = &members.table;
      call.args.rope = members.rope.data();
      call.args.rope_positions = 300;
      ASSERT_EQ(attend(call, laid), KVC_OK) << lastError();
      expectRight(
          call, cache,
          [&](uint32_t s, uint32_t g) { return members.keysOf(cache, s, g); },
          8 * weightRounding(dtype)); // keys are rounded, too
    }
  EXPECT_EQ(status, 0);
}

// Asked once, with the largest numbers, it is enough for all.
TEST_F(PtxAttend, NeedsNoMoreWorkspaceForLess) {
  Cache cache = randomCache(random, 64, 2, 8, KVC_BF16, 3);
  Laid laid(cache, Layout::HeadsFirst);
  for (auto [group, together] :
       {std::pair(1, false), {7, true}, {16, false}, {16, true}, {100, true}})
    for (uint32_t rows : {1u, 128u, 129u, 5000u, 100000u}) {
      Call call(random, cache, uint32_t(group), 1, KVC_F32);
      call.args.cache = &laid.view;
      call.args.max_rows = rows;
      auto cut = [&, together = together](uint32_t batch, uint32_t queries) {
        laid.view.batch = batch;
        call.args.queries = queries;
        return DeviceCut(AttendCall(call.args), together);
      };
      for (uint32_t queries : {1u, 2u, 17u, 300u}) {
        size_t most = cut(64, queries).mostWorkspaceBytes;
        EXPECT_EQ(most == 0, rows <= 128);
        for (uint32_t batch : {1u, 2u, 5u, 31u, 64u})
          for (uint32_t fewer = 1; fewer <= queries; ++fewer)
            EXPECT_LE(cut(batch, fewer).workspaceBytes, most)
                << group << " query heads, " << batch << " sequences, " << fewer
                << " of " << queries << " queries, " << rows << " rows";
      }
    }
}

// What leads out of the cache is reported, and never read: behind the memory is none.
// The bulk copy engine asks the same table, and nothing behind a head's rows reaches a query.
TEST_F(PtxAttend, ReportsPagesThatBoxesAreAskedOf) {
  constexpr uint32_t rows = 300, dim = 64, pages = 19, pageRows = 16;
  GuardedMemory guarded(pages * pageRows * dim * 2, GuardedMemory::Edge::Back);
  std::memset(guarded.data, 0xff, guarded.bytes); // NaN
  std::memset(guarded.data, 0, rows * dim * 2);
  Cache cache = wholeCache(random, 1, 1, dim, KVC_BF16, 1);
  Call call(random, cache, 2, 70, KVC_F32);
  Laid laid(cache, Layout::PagesNHD, pageRows);
  PagedHead head(laid.view, guarded, dim, pageRows, rows);
  auto expect = [&](int32_t bits) {
    status = 0;
    EXPECT_EQ(attend(call, laid), KVC_OK) << lastError();
    EXPECT_EQ(status, bits);
    for (uint32_t row = 0; row < 140; ++row)
      EXPECT_EQ(call.outRow(row), std::vector<float>(dim)) << row;
  };
  expect(0);
  for (int32_t wrong : {int32_t(pages), -1, INT32_MIN, INT32_MAX}) {
    head.table[3] = wrong;
    expect(KVC_DATA_CACHE);
  }
  head.table[3] = 3;
  // Rows that begin amid a page's sixteen are copied.
  head.count -= 5, head.offset = 5, head.length -= 5;
  expect(0);
}

TEST_F(PtxAttend, ReportsWhatLeadsOutOfTheCache) {
  constexpr uint32_t rows = 8, dim = 16;
  GuardedMemory guarded(rows * dim * 2, GuardedMemory::Edge::Back);
  Cache cache = wholeCache(random, 1, 1, dim, KVC_BF16, 1);
  Call call(random, cache, 2, 1, KVC_F32);
  Laid laid(cache, Layout::PagesNHD, 2);
  kvc_cache_view &view = laid.view;
  PagedHead head(view, guarded, dim, 2, rows);
  auto expect = [&](int32_t bits) {
    status = 0;
    EXPECT_EQ(attend(call, laid), KVC_OK) << lastError();
    EXPECT_EQ(status, bits);
  };
  expect(0);
  for (int32_t wrong : {9, -1, INT32_MAX}) {
    head.count = wrong;
    expect(KVC_DATA_CACHE);
    EXPECT_EQ(call.outRow(0), std::vector<float>(dim)); // of no row
  }
  head.count = 8;
  for (int32_t wrong : {1, -1, INT32_MIN, INT32_MAX}) {
    head.offset = wrong;
    expect(KVC_DATA_CACHE);
  }
  head.offset = 0;
  for (int32_t wrong : {4, -1, INT32_MAX}) {
    head.table[3] = wrong;
    expect(KVC_DATA_CACHE);
  }
  head.table[3] = 3;
  head.length = -1;
  expect(KVC_DATA_CACHE);
  head.length = 8;
  call.args.max_rows = 7; // right all the same
  expect(KVC_DATA_CAPACITY);
  auto out = call.out;
  call.args.max_rows = 8;
  expect(0);
  EXPECT_EQ(call.out, out);

  Members members(random, cache, 4);
  std::vector<float> angles(8 * dim);
  view.members = &members.table;
  call.args.rope = angles.data();
  call.args.rope_positions = 8;
  members.counts[0] = 1;
  members.rows[0] = 7, members.positions[0] = 7;
  expect(0);
  for (int32_t wrong : {8, -1}) {
    members.rows[0] = wrong;
    expect(KVC_DATA_CACHE);
    members.rows[0] = 7;
    members.positions[0] = wrong;
    expect(KVC_DATA_CACHE);
    members.positions[0] = 7;
  }
  for (int32_t wrong : {5, -1}) {
    members.counts[0] = wrong;
    expect(KVC_DATA_CACHE);
  }
}

TEST_F(PtxAttend, RefusesMoreRowsThanAGridHas) {
  Cache cache = randomCache(random, 64, 2, 8, KVC_BF16, 3);
  Laid laid(cache, Layout::HeadsFirst);
  Call call(random, cache, 1, 1, KVC_F32);
  call.args.cache = &laid.view;
  call.args.target = KVC_PTX;
  call.args.queries = 1 << 25;
  EXPECT_EQ(kvc_attend(&call.args), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(lastError(), "batch * q_heads * queries must be at most "
                         "2147483647, got 4294967296");
}

TEST_F(PtxAttend, RefusesADeviceThatCannotBe) {
  Cache cache = randomCache(random, 1, 1, 8, KVC_F32, 8);
  Call call(random, cache, 1, 1, KVC_F32);
  Laid laid(cache, Layout::HeadsFirst);
  call.args.target = KVC_CUDA;
  call.args.device = 64;
  call.args.cache = &laid.view;
  size_t bytes;
  EXPECT_EQ(kvc_attend_workspace(&call.args, &bytes), KVC_BAD_ARGUMENT);
  EXPECT_EQ(lastError(), "device must be 0 to 63, got 64");
}
