//===- SharedPages.h - pages that get new rows and have another place ------===//
//
// The device's half of runtime/cache/WrittenPages.cpp. The first block of each head looks
// for a page that gets rows of one head and stands in another place as well: one that
// was given away too early, say. It is reported, and written all the same: other blocks
// write by then.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_SHAREDPAGES_H
#define KVC_RUNTIME_KERNELS_SHAREDPAGES_H

#include "runtime/kernels/Simt.h"
#include "runtime/kernels/View.h"

namespace kvc::gpu {

/// Which pages may be among those that were added: one for each of the last 13 bits.
struct PageMarks {
  uint32_t words[256];

  uint32_t &word(int32_t page) { return words[uint32_t(page) / 32 % 256]; }
  static uint32_t bit(int32_t page) { return 1u << (page % 32); }
  void clear(const Simt &simt) {
    for (uint32_t i = simt.thread(); i < 256; i += appendThreads)
      words[i] = 0;
  }
  void add(int32_t page) {
    __atomic_fetch_or(&word(page), bit(page), __ATOMIC_RELAXED);
  }
  bool mayHave(int32_t page) { return word(page) & bit(page); }
};

/// Calls visit(entry, side), side 1 for values with a table of their own, for the
/// entries that a head's slots [from, to) lie in: every `step`-th, from the `begin`-th.
template <typename Visit>
void visitEntries(const HeadView &head, int64_t from, int64_t to, int64_t begin,
                  int64_t step, Visit visit) {
  const ViewArgs &view = head.view;
  for (uint32_t side = 0; side < (view.vTable.data ? 2u : 1u); ++side) {
    const int32_t *list =
        placeOf(side ? view.vTable : view.table, head.s, head.g);
    for (int64_t i = (from >> view.pageShift) + begin; i << view.pageShift < to;
         i += step)
      visit(list + i, side);
  }
}

/// The same for the entries that get rows, none where a head has no room.
template <typename Visit>
void visitWritten(const AppendArgs &a, uint32_t list, Visit visit) {
  HeadView head(a.view, list / a.view.kvHeads, list % a.view.kvHeads);
  int64_t from = int64_t(head.first) + head.count, to = from + a.rows;
  if (head.sound && to <= endOfSlots(a.view, head.s, head.g))
    visitEntries(head, from, to, 0, 1, visit);
}

/// Reports a page of the head that another place gets rows in. The whole block calls it.
inline void tellOfSharedPages(const Simt &simt, const AppendArgs &a,
                              const HeadView &head, PageMarks &marks) {
  const ViewArgs &view = a.view;
  uint32_t lists = view.batch * view.kvHeads;
  auto inPool = [&](int32_t page) { return uint32_t(page) < view.pages; };
  marks.clear(simt);
  simt.barrier();
  for (uint32_t other = simt.thread(); other < lists; other += appendThreads)
    visitWritten(a, other, [&](const int32_t *entry, uint32_t) {
      if (int32_t page = loaded(entry); inPool(page))
        marks.add(page);
    });
  simt.barrier();
  bool onePool = view.v.data == view.k.data;
  int64_t end = int64_t(head.first) + head.count + a.rows;
  visitEntries(head, head.first, end, simt.thread(), appendThreads,
               [&](const int32_t *own, uint32_t ownSide) {
                 int32_t page = loaded(own);
                 if (!inPool(page) || !marks.mayHave(page))
                   return;
                 for (uint32_t other = 0; other < lists; ++other) {
                   // Heads may have places of their own in a page.
                   if (other % view.kvHeads != head.g && view.k.headStride != 0)
                     continue;
                   visitWritten(a, other,
                                [&](const int32_t *entry, uint32_t side) {
                                  if (entry != own && loaded(entry) == page &&
                                      (onePool || side == ownSide))
                                    report(view, KVC_DATA_CACHE);
                                });
                 }
               });
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_SHAREDPAGES_H
