//===- Attend.h - kvc_attend on a device ----------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTEND_H
#define KVC_RUNTIME_KERNELS_ATTEND_H

#include "runtime/kernels/AttentionParts.h"
#include "runtime/kernels/AttentionSweep.h"
#include "runtime/kernels/View.h"

namespace kvc::gpu {

/// The rows of a head, or what they represent, as a sweep reads them.
template <typename E> class ViewKeys {
public:
  ViewKeys(const AttendViewArgs &a, const HeadView &head)
      : aligned(a.view.aligned), a(a), head(head), size(uint32_t(head.count)) {
    const MembersArgs &m = a.view.members;
    if (!m.rows)
      return;
    uint64_t list = uint64_t(head.s) * a.view.kvHeads + head.g;
    firstMember = list * m.capacity;
    size = uint32_t(m.counts[list]);
    membersSound = size <= m.capacity;
    if (!membersSound || !head.count)
      size = 0;
  }

  /// Bounds for the queries of a block. Positions ascend and are below T: at most as
  /// many of the last rows are behind a query as there are queries behind it.
  void see(uint32_t firstQuery, uint32_t lastQuery) {
    whole = seenByAll(firstQuery);
    end = a.view.members.rows ? size : seenByAll(lastQuery);
    // And those behind it, as far as they are seen.
    int32_t last = positionOf(lastQuery);
    if (end < size && head.positionOf(end) <= last)
      end = firstBehind(last, end + 1);
    // Of a page's rows, those at multiples.
    bool inRows = !a.view.paged || uint32_t(head.first) % pageBoxRows == 0;
    inBoxes = a.boxes.rows && inRows ? whole : 0;
  }
  uint32_t whole = 0, end = 0, inBoxes = 0;
  const bool aligned;

  int32_t positionOf(uint32_t query) const {
    return head.length - int32_t(a.queries - query);
  }
  bool sound() const { return head.sound && membersSound; }
  /// Rows, or members.
  uint32_t count() const { return size; }

  template <bool readsMembers>
  KeyPlace<E> place(uint32_t i, bool withPosition) const {
    KeyPlace<E> place = {};
    uint32_t row = i;
    if (const MembersArgs &m = a.view.members; readsMembers && m.rows) {
      row = uint32_t(m.rows[firstMember + i]);
      auto position = uint32_t(m.positions[firstMember + i]);
      if (row >= uint32_t(head.count) || position >= a.ropePositions) {
        report(a.view, KVC_DATA_CACHE);
        row = position = 0;
      }
      place.norm = m.norms[firstMember + i];
      place.turn = a.rope + uint64_t(position) * a.view.d;
      place.position = int32_t(position);
    } else if (withPosition) {
      place.position = head.positionOf(row);
    }
    place.k = reinterpret_cast<const E *>(head.key(row));
    place.v = reinterpret_cast<const E *>(head.value(row));
    return place;
  }

  bool run(uint32_t i, uint32_t many, KeyRun &run) const {
    return !a.view.members.rows && head.run(i, many, run);
  }

  template <bool values, uint32_t panels, uint32_t many>
  void ask(const Simt &simt, PanelRows<E, many> into, uint32_t i,
           Arrivals arrival) const {
    auto *of = mapOf<values>(simt, offsetof(AttendViewArgs, boxes));
    if (!a.view.paged)
      return askForPanels<panels>(into, of, head.boxOf(values, i), arrival);
    // All entries of the table are on their way before the first one is used.
    constexpr uint32_t boxes = many / pageBoxRows;
    BoxPlace places[boxes];
#pragma unroll
    for (uint32_t box = 0; box < boxes; ++box)
      places[box] = head.boxOf(values, i + box * pageBoxRows);
#pragma unroll
    for (uint32_t box = 0; box < boxes; ++box)
      askForPanels<panels>(into.from(box * pageBoxRows), of, places[box],
                           arrival);
  }

private:
  const AttendViewArgs &a;
  const HeadView &head;
  uint64_t firstMember = 0;
  uint32_t size;
  bool membersSound = true;

  uint32_t seenByAll(uint32_t query) const {
    if (query + 1 == a.queries)
      return size; // positions are below T
    if (a.view.members.rows)
      return 0; // they are in no order
    int64_t rows = int64_t(a.view.positions.data ? head.count : head.length) -
                   int64_t(a.queries - query) + 1;
    return rows < 0 ? 0 : rows < int64_t(size) ? uint32_t(rows) : size;
  }
  /// Of rows [from, size), the first one behind a position.
  uint32_t firstBehind(int32_t position, uint32_t from) const {
    uint32_t to = size;
    while (from < to) {
      uint32_t middle = from + (to - from) / 2;
      if (head.positionOf(middle) <= position)
        from = middle + 1;
      else
        to = middle;
    }
    return from;
  }
};

/// Where the rows of a KV head go: row r is query r / group of its query head r % group.
template <typename E> class OutputRows {
public:
  OutputRows(const AttendViewArgs &a, uint32_t s, uint32_t g)
      : a(a), s(s), g(g) {}

  struct Row {
    char *to;
    bool isFloat;
    void store(uint32_t i, float value) const {
      if (isFloat)
        gpu::store(reinterpret_cast<float *>(to) + i, value);
      else
        gpu::store(reinterpret_cast<E *>(to) + i, narrow<E>(value));
    }
    void storeTwo(uint32_t i, float one, float other) const {
      if (isFloat)
        gpu::storeTwo(reinterpret_cast<float *>(to) + i, one, other);
      else
        gpu::storeTwo(reinterpret_cast<E *>(to) + i, narrow<E>(one),
                      narrow<E>(other));
    }
  };
  Row row(uint32_t row) const {
    return {a.out.data + s * a.out.batchStride +
                headOf(row) * a.out.headStride +
                row / a.group * a.out.rowStride,
            a.outFloat != 0};
  }
  void storeLse(uint32_t row, float lse) const {
    if (a.lse)
      a.lse[s * a.lseBatchStride + headOf(row) * a.lseHeadStride +
            row / a.group] = a.lseBase2 ? lse : lse * ln2;
  }
  /// Of [batch, q_heads, queries, splits, d + 2].
  float *part(uint32_t row, uint32_t split) const {
    uint64_t at =
        (uint64_t(s) * a.view.kvHeads * a.group + headOf(row)) * a.queries +
        row / a.group;
    return a.parts + (at * a.splits + split) * (a.view.d + 2);
  }

private:
  const AttendViewArgs &a;
  uint32_t s, g;

  int64_t headOf(uint32_t row) const { return g * a.group + row % a.group; }
};

template <typename E, int D, Sharing sharing>
void attendView(const Simt &simt, const AttendViewArgs &a) {
  using Sweep = AttentionSweep<E, D, sharing>;
  KVC_SHARED(typename Sweep::Shared, shared, simt);
  // The last rows see most: they go first, or they would be waited for.
  uint32_t block = a.blocks - 1 - simt.blockX() % a.blocks;
  uint32_t head = simt.blockX() / a.blocks, split = simt.blockY();
  HeadView view(a.view, head / a.view.kvHeads, head % a.view.kvHeads);
  ViewKeys<E> keys(a, view);
  if (!keys.sound() && simt.thread() == 0)
    report(a.view, KVC_DATA_CACHE);
  uint32_t parts = (keys.count() + a.splitKeys - 1) / a.splitKeys;
  if (split >= parts && split)
    return;
  if (keys.count() > a.mostKeys && simt.thread() == 0)
    report(a.view, KVC_DATA_CAPACITY); // the last split has the rest

  uint32_t rows = a.queries * a.group, firstRow = block * Sweep::rows;
  uint32_t there =
      rows - firstRow < Sweep::rows ? rows - firstRow : Sweep::rows;
  keys.see(firstRow / a.group, (firstRow + there - 1) / a.group);
  uint32_t from = split * a.splitKeys, to = keys.end;
  if (split + 1 < a.splits && from + a.splitKeys < to)
    to = from + a.splitKeys;

  Sweep sweep(simt, shared, a.view.d);
  QueryRow<E> query[Sweep::laneRows];
#pragma unroll
  for (uint32_t i = 0; i < Sweep::laneRows; ++i) {
    uint32_t row = sweep.row(i);
    row = firstRow + (row < there ? row : there - 1);
    const char *q = a.q.data + view.s * a.q.batchStride +
                    (view.g * a.group + row % a.group) * a.q.headStride +
                    row / a.group * a.q.rowStride;
    query[i] = {reinterpret_cast<const E *>(q), keys.positionOf(row / a.group)};
  }
  sweep.run(keys, from, to, query, a.rowsAligned, a.scale);

  sweep.finish(OutputRows<E>(a, view.s, view.g), firstRow, there,
               parts > 1 && a.splits > 1, split);
}

/// The splits of one output row.
template <typename E, int D>
void addViewParts(const Simt &simt, const AttendViewArgs &a) {
  KVC_SHARED(PartsShared<D>, shared, simt);
  uint32_t headRows = a.queries * a.group;
  uint32_t head = simt.blockX() / headRows, row = simt.blockX() % headRows;
  HeadView view(a.view, head / a.view.kvHeads, head % a.view.kvHeads);
  uint32_t parts =
      (ViewKeys<E>(a, view).count() + a.splitKeys - 1) / a.splitKeys;
  parts = parts < a.splits ? parts : a.splits;
  if (parts <= 1)
    return; // the sweep has stored it
  addParts(simt, shared, OutputRows<E>(a, view.s, view.g), row, parts,
           a.view.d);
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTEND_H
