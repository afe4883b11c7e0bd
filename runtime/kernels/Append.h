//===- Append.h - kvc_append on a device ----------------------------------===//
//
// A sequence gets its rows in all of its heads or in none: every block looks at all
// heads of its sequence first. Counts and lengths are changed by a launch of its own,
// behind the one that reads them.
//
// Where there is a status, the first block of each head looks for a page that gets rows
// of one head and stands in another place as well, a page that was given away too early,
// say. It is reported, and written all the same: other blocks write by then.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_APPEND_H
#define KVC_RUNTIME_KERNELS_APPEND_H

#include "runtime/kernels/Simt.h"
#include "runtime/kernels/View.h"

namespace kvc::gpu {

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

/// Of one head, the bits that say why it has no room; 0 if it has.
inline int32_t faultOf(const AppendArgs &a, uint32_t s, uint32_t g) {
  const ViewArgs &view = a.view;
  HeadView head(view, s, g);
  if (!head.sound)
    return KVC_DATA_CACHE;
  if (int64_t(head.first) + head.count + a.rows > endOfSlots(view, s, g))
    return KVC_DATA_CAPACITY;
  auto count = uint32_t(head.count);
  if (int64_t(head.length) + a.rows > INT32_MAX ||
      !head.hasPages(count ? count - 1 : 0, count + a.rows))
    return KVC_DATA_CACHE;
  // The newest row is in front of the next token; without positions it is the last.
  if (view.positions.data
          ? count && uint32_t(loaded(head.position(count - 1))) >=
                         uint32_t(head.length)
          : !view.members.rows && head.count != head.length)
    return KVC_DATA_CACHE;
  if (const MembersArgs &m = view.members; m.rows) {
    auto members = uint32_t(m.counts[uint64_t(s) * view.kvHeads + g]);
    if (members > m.capacity)
      return KVC_DATA_CACHE;
    if (m.capacity - members < a.rows)
      return KVC_DATA_CAPACITY;
  }
  return 0;
}

/// Of all heads of a sequence; every thread of the block gets it.
inline int32_t faultOf(const Simt &simt, const AppendArgs &a, uint32_t s,
                       int32_t (&shared)[appendThreads]) {
  int32_t fault = 0;
  for (uint32_t g = simt.thread(); g < a.view.kvHeads; g += appendThreads)
    fault |= faultOf(a, s, g);
  shared[simt.thread()] = fault;
  simt.barrier();
  for (uint32_t i = 0; i < appendThreads; ++i)
    fault |= shared[i];
  simt.barrier();
  return fault;
}

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

struct AppendShared {
  int32_t faults[appendThreads];
  float squares[appendThreads / warpSize];
  PageMarks marks;
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

template <typename E> void append(const Simt &simt, const AppendArgs &a) {
  KVC_SHARED(AppendShared, shared, simt);
  const ViewArgs &view = a.view;
  uint32_t i = simt.blockX() % a.rows, list = simt.blockX() / a.rows,
           s = list / view.kvHeads, g = list % view.kvHeads;
  if (int32_t fault = faultOf(simt, a, s, shared.faults)) {
    if (simt.thread() == 0)
      report(view, fault);
    return;
  }
  HeadView head(view, s, g);
  if (i == 0 && view.paged && view.status)
    tellOfSharedPages(simt, a, head, shared.marks);
  uint32_t row = uint32_t(head.count) + i;
  int32_t position = head.length + int32_t(i);
  auto from = [&](const PlaneArgs &plane) {
    return reinterpret_cast<const E *>(plane.data + s * plane.batchStride +
                                       g * plane.headStride +
                                       i * plane.rowStride);
  };
  const E *newKey = from(a.k), *newValue = from(a.v);
  auto *key = reinterpret_cast<E *>(head.key(row));
  auto *value = reinterpret_cast<E *>(head.value(row));
  for (uint32_t j = simt.thread(); j < view.d; j += appendThreads)
    value[j] = newValue[j];
  if (view.positions.data && simt.thread() == 0)
    *head.position(row) = position;
  if (!view.members.rows) {
    for (uint32_t j = simt.thread(); j < view.d; j += appendThreads)
      key[j] = newKey[j];
    return;
  }
  // A merged cache has unit keys, and a member for each row.
  float squares = 0;
  for (uint32_t j = simt.thread(); j < view.d; j += appendThreads)
    squares += widen(newKey[j]) * widen(newKey[j]);
  squares = sumOf(simt, warpSize, squares);
  if (simt.thread() % warpSize == 0)
    shared.squares[simt.thread() / warpSize] = squares;
  simt.barrier();
  squares = 0;
  for (float part : shared.squares)
    squares += part;
  float norm = __builtin_sqrtf(squares);
  for (uint32_t j = simt.thread(); j < view.d; j += appendThreads)
    key[j] = norm != 0 ? narrow<E>(widen(newKey[j]) / norm) : newKey[j];
  if (simt.thread() == 0) {
    const MembersArgs &m = view.members;
    uint64_t entry = uint64_t(list) * m.capacity + uint32_t(m.counts[list]) + i;
    m.rows[entry] = int32_t(row);
    m.positions[entry] = position;
    m.norms[entry] = norm;
  }
}

/// Heads may share a count, sequences a list of them, and a count may be the length.
inline void appendCounts(const Simt &simt, const AppendArgs &a) {
  KVC_SHARED(AppendShared, shared, simt);
  const ViewArgs &view = a.view;
  uint32_t s = simt.blockX();
  if (faultOf(simt, a, s, shared.faults))
    return;
  uint32_t counts = view.counts.headStride ? view.kvHeads : 1;
  auto rows = int32_t(a.rows);
  for (uint32_t g = simt.thread(); g < counts; g += appendThreads)
    *placeOf(view.counts, s, g) += rows;
  if (const MembersArgs &m = view.members; m.rows)
    for (uint32_t g = simt.thread(); g < view.kvHeads; g += appendThreads)
      m.counts[uint64_t(s) * view.kvHeads + g] += rows;
  if (view.lengths && simt.thread() == 0)
    view.lengths[s] += rows;
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_APPEND_H
