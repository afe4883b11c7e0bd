//===- PlaceJudge.cpp - kept rows that were put into a view ---------------===//

#include "test/matrix/PlaceJudge.h"

#include "kvc/artifact.h"
#include "runtime/base/DType.h"
#include "test/matrix/GuardedMemory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <ranges>

using namespace kvc;
using namespace kvc::test;

void kvc::test::expectUntouched(const Laid &into,
                                std::vector<std::byte> before) {
  size_t row = into.view.head_dim * rt::dtypeBytes(into.view.dtype);
  uint32_t heads = into.view.kv_heads;
  for (uint32_t i = 0; i < into.counts.size(); ++i)
    for (uint32_t r = 0; r < uint32_t(into.counts[i]); ++r) {
      auto [k, v] = into.placesOf(i / heads, i % heads, r);
      for (size_t at : {k, v})
        std::copy_n(into.memory.begin() + ptrdiff_t(at), row,
                    before.begin() + ptrdiff_t(at));
    }
  EXPECT_TRUE(before == into.memory) << "memory without kept rows changed";
}

static size_t listOf(const Laid &laid, uint32_t head) {
  const kvc_cache_view &view = laid.view;
  return head / view.kv_heads * size_t(view.table.batch_stride) +
         head % view.kv_heads * size_t(view.table.head_stride);
}

static size_t entryOf(const Laid &laid, uint32_t head, int32_t row) {
  int32_t first = laid.offsets.empty() ? 0 : laid.offsets[head];
  return listOf(laid, head) + size_t(first + row) / laid.view.page_rows;
}

PageOwners kvc::test::ownersOf(const Laid &laid) {
  PageOwners owners(laid.table.size());
  for (uint32_t i = 0; laid.view.kind == KVC_PAGED && i < laid.counts.size();
       ++i)
    for (int32_t r = 0; r < laid.counts[i]; ++r) {
      std::vector<uint32_t> &entry = owners[entryOf(laid, i, r)];
      if (entry.empty() || entry.back() != i)
        entry.push_back(i);
    }
  return owners;
}

void kvc::test::judgeFreed(const Laid &now, const PageOwners &before,
                           const std::vector<int32_t> &freed) {
  PageOwners left = ownersOf(now);
  std::vector<bool> said(left.size());
  for (uint32_t i = 0; i < freed.size() / 2; ++i)
    for (int32_t e = 0; e < freed[2 * i + 1]; ++e) {
      size_t entry = listOf(now, i) + size_t(freed[2 * i] + e);
      ASSERT_LT(entry, said.size());
      EXPECT_FALSE(said[entry]) << "entry " << entry << " twice";
      said[entry] = true;
      EXPECT_TRUE(left[entry].empty() && !before[entry].empty())
          << "entry " << entry << " of head " << i;
    }
  bool ofHeads = now.view.table.head_stride != 0;
  bool behind = !ofHeads && now.view.k.head_stride == 0;
  bool together = !ofHeads && !behind;
  for (uint32_t i = 0; i < freed.size() / 2; ++i) {
    size_t list = listOf(now, i);
    size_t end = std::min(list + now.view.table_entries, left.size());
    auto isKept = [&](size_t entry) { return !left[entry].empty(); };
    for (size_t entry = list; entry < end; ++entry) {
      bool between =
          std::ranges::any_of(std::views::iota(list, entry), isKept) &&
          std::ranges::any_of(std::views::iota(entry, end), isKept);
      if (isKept(entry) || before[entry].empty() ||
          (behind && before[entry].size() > 1) || (together && between))
        continue;
      EXPECT_TRUE(said[entry]) << "entry " << entry << " is not reported";
    }
  }
}

static Cache emptied(Cache cache) {
  for (Head &head : cache.all)
    head = {};
  return cache;
}

static std::unique_ptr<Laid> laid(const Cache *cache, Layout layout) {
  return cache ? std::make_unique<Laid>(*cache, layout, 4) : nullptr;
}

void kvc::test::judgePassage(kvc_module *module, const Passage &passage,
                             const Cache &cache, const Cache *raw,
                             const RowsInput &input, const RowsResult &want,
                             uint32_t seed) {
  const bool all = std::getenv("KVC_ALL_CASES");
  const bool can = passage.cache == passage.into ||
                   (passage.cache == KVC_DENSE && passage.into == KVC_RAGGED);
  auto merges = [&] {
    return std::ranges::any_of(want.heads, [](const RowsKept &head) {
      return !head.members.rows.empty();
    });
  };
  for (bool tail : {false, true})
    for (bool inPlace : {false, true}) {
      if ((inPlace && !can) || (tail != seed % 2 && !all))
        continue;
      uint32_t turn = seed * 2 + tail;
      SCOPED_TRACE(testing::Message()
                   << "from " << passage.cache << " into " << passage.into
                   << " turn " << turn << (tail ? " at the tail" : "")
                   << (inPlace ? " in place" : ""));
      Layout layout = layoutOf(passage.cache, turn);
      Laid from(cache, layout, 4),
          own(emptied(cache), layoutOf(passage.into, turn + seed), 8,
              input.tokens);
      std::unique_ptr<Laid> rawLaid = laid(raw, layout);
      Laid &into = inPlace ? from : own;
      std::vector<std::byte> before = into.memory;
      PageOwners owners = ownersOf(from);
      Placement placement = {&into, tail, {}};
      RowsResult got = evictRows(module, from, rawLaid.get(), input,
                                 passage.cache == KVC_DENSE, &placement);
      ASSERT_EQ(got.heads.size(), want.heads.size());
      for (size_t i = 0; i < got.heads.size(); ++i)
        got.heads[i].scores = want.heads[i].scores;
      expectSame(want, got);
      if (inPlace && merges()) {
        Laid was(cache, layout, 4);
        was.memory = into.memory;
        expectUntouched(was, std::move(before));
      } else {
        expectUntouched(into, std::move(before));
      }
      if (inPlace && passage.into == KVC_PAGED)
        judgeFreed(from, owners, placement.freed);
    }
}

void kvc::test::judgeWrongInto(kvc_module *module, const Passage &passage,
                               const Cache &cache, const Cache *raw,
                               const RowsInput &input) {
  bool paged = passage.into == KVC_PAGED;
  auto call = [&](std::function<void(Laid &)> change, uint32_t room,
                  int32_t status) {
    Layout layout = passage.cache == KVC_DENSE   ? Layout::HeadsFirst
                    : passage.cache == KVC_PAGED ? Layout::PagesNHD
                                                 : Layout::Compacted;
    Laid from(cache, layout, 4),
        into(emptied(cache), paged ? Layout::PagesNHD : Layout::HeadsFirst, 4,
             room);
    std::unique_ptr<Laid> rawLaid = laid(raw, layout);
    change(into);
    GuardedMemory memory(into.memory, GuardedMemory::Edge::Back);
    for (kvc_plane *plane : {&into.view.k, &into.view.v})
      plane->data = memory.data + (static_cast<std::byte *>(plane->data) -
                                   into.memory.data());
    Placement placement = {&into, false, {}};
    RowsResult got = evictRows(module, from, rawLaid.get(), input,
                               passage.cache == KVC_DENSE, &placement);
    EXPECT_TRUE(got.status & status) << "status " << got.status;
  };
  {
    SCOPED_TRACE("slots for one row");
    call([](Laid &into) { into.view.slots = into.view.table_entries = 1; }, 1,
         KVC_DATA_CAPACITY);
  }
  if (paged) {
    SCOPED_TRACE("page behind the pool");
    call(
        [](Laid &into) {
          std::ranges::fill(into.table, int32_t(into.view.pages));
        },
        input.tokens, KVC_DATA_CACHE);
  }
}
