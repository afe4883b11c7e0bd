//===- Append.h - kvc_append on a device ----------------------------------===//
//
// A sequence gets its rows in all of its heads or in none: every block looks at all
// heads of its sequence first. Counts and lengths are changed by a launch of its own,
// behind the one that reads them.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_APPEND_H
#define KVC_RUNTIME_KERNELS_APPEND_H

#include "runtime/kernels/SharedPages.h"

namespace kvc::gpu {

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

struct AppendShared {
  int32_t faults[appendThreads];
  float squares[appendThreads / warpSize];
  PageMarks marks;
};

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
