//===- PlaceJudge.cpp - kept rows that were put into a view ---------------===//

#include "test/matrix/PlaceJudge.h"

#include "runtime/base/DType.h"

#include <gtest/gtest.h>

#include <algorithm>
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
