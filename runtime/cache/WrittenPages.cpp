//===- WrittenPages.cpp - a page that is written has one owner ------------===//
//
// No page is twice in a list: two rows would be one.
// Pages of older rows may stand in many tables: prefixes are shared. A page that gets
// new rows, or whose rows move, must stand in one place alone, or a sequence would write
// over another's.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Failure.h"
#include "runtime/cache/CacheView.h"

#include <algorithm>

using namespace kvc::rt;

namespace {

/// Which pages may be among those that were added, in constant memory: a page and the
/// one that is `pages` behind it are one.
class PageMarks {
public:
  static constexpr int64_t pages = 1 << 16;
  void add(int32_t page) { word(page) |= bit(page); }
  bool mayHave(int32_t page) { return word(page) & bit(page); }

private:
  uint64_t marks[pages / 64] = {};
  uint64_t &word(int32_t page) { return marks[uint32_t(page) % pages / 64]; }
  static uint64_t bit(int32_t page) { return uint64_t(1) << (page % 64); }
};

struct Entry {
  const int32_t *place;
  uint32_t sequence, head;
  bool written;
};

} // namespace

template <typename Visit>
void CacheView::visitEntries(std::optional<uint32_t> newRows,
                             const kvc_numbers &pages, Visit visit) const {
  bool alike = pages.head_stride == 0 && view.counts.head_stride == 0 &&
               (!view.offsets.data || view.offsets.head_stride == 0);
  uint32_t heads = alike ? 1 : view.kv_heads;
  for (uint32_t s = 0; s < view.batch; ++s)
    for (uint32_t g = 0; g < heads; ++g) {
      const int32_t *list = placeOf(pages, s, g);
      int64_t first = offset(s, g), written = first + count(s, g);
      int64_t end = written + newRows.value_or(0);
      if (end == first) // wherever its row 0 would be
        continue;
      for (int64_t i = first / view.page_rows; i * view.page_rows < end; ++i)
        visit(Entry{list + i, s, g, !newRows || i >= written / view.page_rows});
    }
}

/// The tables' page numbers are those of one pool, and have been checked.
void CacheView::checkPool(uint32_t newRows, Tables tables) const {
  auto each = [&](auto visit) {
    for (const kvc_numbers *pages : tables)
      visitEntries(newRows, *pages, visit);
  };
  PageMarks marks;
  each([&](const Entry &entry) {
    if (entry.written)
      marks.add(*entry.place);
  });
  each([&](const Entry &entry) {
    if (!marks.mayHave(*entry.place))
      return;
    each([&](const Entry &other) {
      bool meet = other.head == entry.head || view.k.head_stride == 0;
      if (other.written && meet && other.place != entry.place &&
          *other.place == *entry.place)
        throw fail(
            KVC_BAD_ARGUMENT,
            "page {} is written and must occur once, got it for sequence "
            "{}, head {} and for sequence {}, head {}",
            *entry.place, other.sequence, other.head, entry.sequence,
            entry.head);
    });
  });
}

template <typename Check> void CacheView::eachPool(Check check) const {
  if (!view.v_table.data)
    return check({&view.table});
  if (view.v.data == view.k.data)
    return check({&view.table, &view.v_table});
  check({&view.table});
  check({&view.v_table});
}

void CacheView::checkWrittenPages(uint32_t newRows) const {
  eachPool([&](Tables tables) { checkPool(newRows, tables); });
}

/// Of entries that `takes` takes, none has a page that one in another place has. Goes
/// through the pool in parts, so that marks are exact.
template <typename Takes>
void CacheView::checkOnce(Tables tables, Takes takes) const {
  auto each = [&](auto visit) {
    for (const kvc_numbers *pages : tables)
      visitEntries(std::nullopt, *pages, [&](const Entry &entry) {
        if (takes(entry))
          visit(entry);
      });
  };
  for (int64_t from = 0; from < view.pages; from += PageMarks::pages) {
    PageMarks marks;
    each([&](const Entry &entry) {
      if (*entry.place < from || *entry.place >= from + PageMarks::pages)
        return;
      if (!marks.mayHave(*entry.place))
        return marks.add(*entry.place);
      // Rows of two heads behind one another may share an entry.
      each([&](const Entry &other) {
        if (other.place != entry.place && *other.place == *entry.place)
          throw fail(KVC_BAD_ARGUMENT,
                     "page {} must be one sequence's and occur once where rows "
                     "are moved, got it for sequence {}, head {} and for "
                     "sequence {}, head {}",
                     *entry.place, other.sequence, other.head, entry.sequence,
                     entry.head);
      });
    });
  }
}

void CacheView::checkListOnce(const kvc_numbers &pages, const char *field,
                              uint32_t s, uint32_t g, int64_t from,
                              int64_t to) const {
  const int32_t *list = placeOf(pages, s, g);
  for (int64_t first = 0; first < view.pages; first += PageMarks::pages) {
    PageMarks marks;
    for (int64_t i = from; i < to; ++i) {
      if (list[i] < first || list[i] >= first + PageMarks::pages)
        continue;
      if (marks.mayHave(list[i]))
        throw fail(KVC_BAD_ARGUMENT,
                   "sequence {}, head {}: entries of {}.{} must differ, got "
                   "page {} at {} and at {}",
                   s, g, name, field, list[i],
                   std::find(list + from, list + i, list[i]) - list, i);
      marks.add(list[i]);
    }
  }
}

void CacheView::checkOwnPages() const {
  eachPool([&](Tables tables) {
    if (view.k.head_stride == 0)
      return checkOnce(tables, [](const Entry &) { return true; });
    // Heads have places of their own in a page.
    for (uint32_t g = 0; g < view.kv_heads; ++g)
      checkOnce(tables, [g](const Entry &entry) { return entry.head == g; });
  });
}
