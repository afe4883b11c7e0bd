//===- View.h - where the rows of a cache lie, on a device ----------------===//
//
// The device's half of runtime/cache: nothing is known to be right here. What leads
// out of the cache sets a bit of the status, and nothing there is read or written.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_VIEW_H
#define KVC_RUNTIME_KERNELS_VIEW_H

#include "kvc/artifact.h"
#include "runtime/kernels/Args.h"
#include "runtime/kernels/BulkCopies.h"
#include "runtime/kernels/Elements.h"
#include "runtime/kernels/KeyRun.h"

namespace kvc::gpu {

inline void report(const ViewArgs &view, int32_t bit) {
  if (view.status)
    __atomic_fetch_or(view.status, bit, __ATOMIC_RELAXED);
}

inline int32_t *placeOf(const NumbersArgs &numbers, uint32_t s, uint32_t g) {
  return numbers.data + s * numbers.batchStride + g * numbers.headStride;
}

/// One head of one sequence.
class HeadView {
public:
  HeadView(const ViewArgs &view, uint32_t s, uint32_t g)
      : view(view), s(s), g(g) {
    first = view.offsets.data ? *placeOf(view.offsets, s, g) : 0;
    count = *placeOf(view.counts, s, g);
    length = view.lengths ? view.lengths[s] : count;
    sound = first >= 0 && count >= 0 &&
            uint64_t(first) + uint64_t(count) <= view.slots && length >= 0;
    if (!sound)
      count = 0;
  }

  const ViewArgs &view;
  const uint32_t s, g;
  int32_t first, count; // slots of its rows
  int32_t length;       // T
  bool sound;           // else no row is to be touched

  char *key(uint32_t row) const { return at(view.k, view.table, row); }
  char *value(uint32_t row) const {
    return at(view.v, pagesOf(/*values=*/true), row);
  }
  /// Rows [row, row + count), if they are in one page and no further apart than 32 bits say.
  bool run(uint32_t row, uint32_t count, KeyRun &run) const {
    uint32_t ofPage = (1u << view.pageShift) - 1,
             inPage = (uint32_t(first) + row) & ofPage;
    if (view.paged && inPage + count > ofPage + 1)
      return false;
    if (uint64_t(view.k.rowStride | view.v.rowStride) >> 32)
      return false;
    uint32_t until = view.paged ? row + (ofPage + 1 - inPage) : UINT32_MAX;
    run = {key(row), value(row), uint32_t(view.k.rowStride),
           uint32_t(view.v.rowStride), until};
    return true;
  }
  /// Where boxes of BoxArgs find a row.
  BoxPlace boxOf(bool values, uint32_t row) const {
    const PlaneArgs &plane = values ? view.v : view.k;
    int32_t slot = first + int32_t(row),
            head = plane.headStride ? int32_t(g) : 0;
    if (!view.paged)
      return {0, slot, head, plane.batchStride ? int32_t(s) : 0};
    int32_t page = pageOf(pagesOf(values), slot >> view.pageShift);
    return {0, slot & ((1 << view.pageShift) - 1), head, page};
  }
  /// Of a row where rows have positions of their own.
  int32_t *position(uint32_t row) const {
    const PlaneArgs &p = view.positions;
    if (view.positionsBySlot)
      return reinterpret_cast<int32_t *>(at(p, view.table, row));
    return reinterpret_cast<int32_t *>(p.data + s * p.batchStride +
                                       g * p.headStride +
                                       int64_t(row) * p.rowStride);
  }
  int32_t positionOf(uint32_t row) const {
    return view.positions.data ? loaded(position(row)) : int32_t(row);
  }
  /// True where the pages of rows [from, to) are in the pool.
  bool hasPages(uint32_t from, uint32_t to) const {
    return !view.paged || from == to ||
           (inPool(view.table, from, to) &&
            (!view.vTable.data || inPool(view.vTable, from, to)));
  }

private:
  bool inPool(const NumbersArgs &pages, uint32_t from, uint32_t to) const {
    const int32_t *list = placeOf(pages, s, g);
    int64_t last = (int64_t(first) + to - 1) >> view.pageShift;
    for (int64_t i = (int64_t(first) + from) >> view.pageShift; i <= last; ++i)
      if (uint32_t(loaded(list + i)) >= view.pages)
        return false;
    return true;
  }
  const NumbersArgs &pagesOf(bool values) const {
    return values && view.vTable.data ? view.vTable : view.table;
  }
  int32_t pageOf(const NumbersArgs &pages, int64_t entry) const {
    int32_t page = loaded(placeOf(pages, s, g) + entry);
    if (uint32_t(page) >= view.pages) {
      report(view, KVC_DATA_CACHE);
      page = 0; // which is the caller's memory, too
    }
    return page;
  }
  char *at(const PlaneArgs &plane, const NumbersArgs &pages,
           uint32_t row) const {
    char *base = plane.data + g * plane.headStride;
    int64_t slot = int64_t(first) + row;
    if (!view.paged)
      return base + s * plane.batchStride + slot * plane.rowStride;
    int64_t entry = slot >> view.pageShift;
    return base + pageOf(pages, entry) * plane.pageStride +
           (slot - (entry << view.pageShift)) * plane.rowStride;
  }
};

/// The first slot behind those that a head may fill.
inline int64_t endOfSlots(const ViewArgs &view, uint32_t s, uint32_t g) {
  auto most = int64_t(view.slots);
  bool meet = view.headsMeet && g + 1 < view.kvHeads;
  if (!meet && !(view.sequencesMeet && s + 1 < view.batch))
    return most;
  uint32_t nextG = meet ? g + 1 : view.headsMeet ? 0 : g;
  int64_t next =
      view.offsets.data ? *placeOf(view.offsets, meet ? s : s + 1, nextG) : 0;
  return next < most ? next : most;
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_VIEW_H
