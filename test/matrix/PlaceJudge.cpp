//===- PlaceJudge.cpp - kept rows that were put into a view ---------------===//

#include "test/matrix/PlaceJudge.h"

#include "runtime/base/DType.h"
#include "runtime/base/Format.h"

#include <algorithm>
#include <memory>
#include <ranges>

using namespace kvc;
using namespace kvc::test;

std::string Place::text() const {
  return rt::formatted("from {} into {}, turn {}{}{}", int(cache), int(into),
                       turn, tail ? ", at the tail" : "",
                       inPlace ? ", in place" : "");
}

/// Bytes that no kept row has are what they were.
static void judgeUntouched(const Laid &into, std::vector<std::byte> before,
                           Faults &faults) {
  size_t row = into.view.head_dim * rt::dtypeBytes(into.view.dtype);
  uint32_t heads = into.view.kv_heads;
  for (uint32_t i = 0; i < into.counts.size(); ++i)
    for (uint32_t r = 0; r < uint32_t(into.counts[i]); ++r) {
      auto [k, v] = into.placesOf(i / heads, i % heads, r);
      for (size_t at : {k, v})
        std::copy_n(into.memory.begin() + ptrdiff_t(at), row,
                    before.begin() + ptrdiff_t(at));
    }
  if (before != into.memory)
    faults.add("memory without kept rows changed");
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

/// Which heads have rows in the pages of each entry of the tables: [entry of the
/// table] of head numbers, batch * heads of them. None without pages.
using PageOwners = std::vector<std::vector<uint32_t>>;

static PageOwners ownersOf(const Laid &laid) {
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

/// Whether `freed`, [batch * heads][2], first and number of entries, says what became
/// free. What is said to be free had rows and has none; and nothing is missing but pages
/// in which rows of several heads lay behind one another, and those with kept rows of
/// heads in the same slots on both sides.
static void judgeFreed(const Laid &now, const PageOwners &before,
                       const std::vector<int32_t> &freed, Faults &faults) {
  PageOwners left = ownersOf(now);
  std::vector<bool> said(left.size());
  for (uint32_t i = 0; i < freed.size() / 2; ++i)
    for (int32_t e = 0; e < freed[2 * i + 1]; ++e) {
      size_t entry = listOf(now, i) + size_t(freed[2 * i] + e);
      if (entry >= said.size())
        return faults.add(
            rt::formatted("entry {} of {} is free", entry, said.size()));
      if (said[entry])
        faults.add(rt::formatted("entry {} is free twice", entry));
      said[entry] = true;
      if (!left[entry].empty() || before[entry].empty())
        faults.add(
            rt::formatted("entry {} of head {} did not become free", entry, i));
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
      if (!said[entry])
        faults.add(rt::formatted("entry {} is free and not told", entry));
    }
  }
}

static Cache emptied(Cache cache) {
  for (Head &head : cache.all)
    head = {};
  return cache;
}

static bool merges(const RowsResult &result) {
  return std::ranges::any_of(result.heads, [](const RowsKept &head) {
    return !head.members.rows.empty();
  });
}

Faults kvc::test::judgePlace(kvc_module *module, const Place &place,
                             const Cache &cache, const Cache *raw,
                             const RowsInput &input, const RowsResult &want) {
  constexpr uint32_t pageRows = 4;
  Layout layout = layoutOf(place.cache, place.turn);
  Laid from(cache, layout, pageRows),
      own(emptied(cache), layoutOf(place.into, place.turn / 2 * 3 + 1),
          2 * pageRows, input.tokens);
  std::unique_ptr<Laid> rawLaid =
      raw ? std::make_unique<Laid>(*raw, layout, pageRows) : nullptr;
  Laid &into = place.inPlace ? from : own;
  std::vector<std::byte> before = into.memory;
  PageOwners owners = ownersOf(from);
  Placement placement = {&into, place.tail, {}};
  RowsResult got = evictRows(module, from, rawLaid.get(), input,
                             place.cache == KVC_DENSE, &placement);
  // Nobody reads scores of rows that moved.
  for (size_t i = 0; i < std::min(got.heads.size(), want.heads.size()); ++i)
    got.heads[i].scores = want.heads[i].scores;
  Faults faults = compareBytes(want, got);
  if (!faults.empty())
    return faults;
  if (place.inPlace && merges(want)) {
    Laid was(cache, layout, pageRows);
    was.memory = into.memory;
    judgeUntouched(was, std::move(before), faults);
  } else {
    judgeUntouched(into, std::move(before), faults);
  }
  if (place.inPlace && place.into == KVC_PAGED)
    judgeFreed(from, owners, placement.freed, faults);
  return faults;
}
