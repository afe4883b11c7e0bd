//===- Attention.h - prefill, chunks and decoding -------------------------===//
//
// The sweep of runtime/kernels over one list of keys: first the cache, ragged by
// head, then the tokens themselves. The query heads of a group share the tiles. Where
// there are few rows the keys are split between blocks and the parts added up.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_KERNELS_ATTENTION_H
#define KVC_EXECUTOR_CUDA_KERNELS_ATTENTION_H

#include "executor/cuda/kernels/Args.h"
#include "runtime/kernels/AttentionParts.h"
#include "runtime/kernels/AttentionSweep.h"

namespace kvc::gpu {

/// What the queries of one KV head see: `past` cached keys, then the tokens' own.
/// Positions are the tokens' numbers; cached keys are in front of all of them.
template <typename E> class CacheThenTokens {
public:
  CacheThenTokens(const AttendArgs &a, uint32_t head)
      : aligned(a.d * sizeof(E) % 16 == 0), a(a), head(head) {
    const CacheArgs &c = a.cache;
    const int32_t *counts = c.members.rows ? c.members.counts : c.counts;
    past = (counts ? uint32_t(counts[head]) : 0) + c.extra;
  }
  /// Every row of the block sees its keys in front of `seen`.
  void see(uint32_t seen) {
    whole = seen;
    inBoxes = !a.boxes.rows ? 0 : a.boxesOfTokens ? whole : past;
  }
  uint32_t past, whole = 0, inBoxes = 0;
  const bool aligned;

  template <bool readsMembers> KeyPlace<E> place(uint32_t i, bool) const {
    const CacheArgs &c = a.cache;
    KeyPlace<E> place = {};
    bool cached = i < past;
    uint64_t row = uint64_t(head) * a.tokens + (i - past);
    if (readsMembers && cached && c.members.rows) {
      const MembersArgs &m = c.members;
      uint64_t entry = uint64_t(head) * m.capacity + i;
      row = uint32_t(c.offsets[head]) + uint32_t(m.rows[entry]);
      place.norm = m.norms[entry];
      place.turn = c.rope + uint64_t(uint32_t(m.positions[entry])) * a.d;
    } else if (cached) {
      row = uint32_t(c.offsets[head]) + i;
    }
    place.k = static_cast<const E *>(cached ? c.k : a.k) + row * a.d;
    place.v = static_cast<const E *>(cached ? c.v : a.v) + row * a.d;
    place.position = cached ? -1 : int32_t(i - past);
    return place;
  }

  bool run(uint32_t i, uint32_t many, KeyRun &run) const {
    const CacheArgs &c = a.cache;
    bool cached = i < past;
    if (cached && (c.members.rows || i + many > past))
      return false;
    uint32_t row =
        cached ? uint32_t(c.offsets[head]) + i : head * a.tokens + (i - past);
    auto stride = uint32_t(a.d * sizeof(E));
    auto at = [&](const void *cache, const void *own) {
      return static_cast<const char *>(cached ? cache : own) +
             uint64_t(row) * stride;
    };
    run = {at(c.k, a.k), at(c.v, a.v), stride, stride,
           cached ? past : UINT32_MAX};
    return true;
  }

  template <bool values, uint32_t panels, uint32_t many>
  void ask(const Simt &simt, PanelRows<E, many> into, uint32_t i,
           Arrivals arrival) const {
    auto *of = mapOf<values>(simt, offsetof(AttendArgs, boxes));
    bool own = a.boxesOfTokens;
    int32_t row = (own ? 0 : a.cache.offsets[head]) + int32_t(i);
    askForPanels<panels>(into, of, {0, row, own ? int32_t(head) : 0, 0},
                         arrival);
  }

private:
  const AttendArgs &a;
  uint32_t head;
};

/// Where the rows of a KV head go: row r is token r / group of its query head r % group.
template <typename E> class TokenRows {
public:
  TokenRows(const AttendArgs &a, uint32_t head)
      : a(a), group(a.qHeads / a.kvHeads), head(head) {}

  const E *query(uint32_t row) const {
    return static_cast<const E *>(a.q) + at(row) * a.d;
  }
  struct Row {
    E *to;
    void store(uint32_t i, float value) const {
      gpu::store(to + i, narrow<E>(value));
    }
    void storeTwo(uint32_t i, float one, float other) const {
      gpu::storeTwo(to + i, narrow<E>(one), narrow<E>(other));
    }
  };
  Row row(uint32_t row) const {
    uint64_t to = uint64_t(row / group) * a.qHeads + head * group + row % group;
    return {static_cast<E *>(a.out) + to * a.d};
  }
  void storeLse(uint32_t row, float lse) const {
    gpu::store(a.lse + at(row), lse * ln2);
  }
  float *part(uint32_t row, uint32_t split) const {
    return a.parts + (at(row) * a.splits + split) * (a.d + 2);
  }

private:
  const AttendArgs &a;
  uint32_t group, head;

  uint64_t at(uint32_t row) const { // [Hq, T]
    return uint64_t(head * group + row % group) * a.tokens + row / group;
  }
};

template <typename E, int D, Sharing sharing>
void attend(const Simt &simt, const AttendArgs &a) {
  using Sweep = AttentionSweep<E, D, sharing>;
  KVC_SHARED(typename Sweep::Shared, shared, simt);
  uint32_t head = simt.blockY(), split = simt.blockZ();
  uint32_t group = a.qHeads / a.kvHeads, rows = a.tokens * group;
  // The last rows see most: they go first, or they would be waited for.
  uint32_t firstRow = ((rows - 1) / Sweep::rows - simt.blockX()) * Sweep::rows;
  uint32_t there =
      rows - firstRow < Sweep::rows ? rows - firstRow : Sweep::rows;
  CacheThenTokens<E> keys(a, head);
  keys.see(keys.past + firstRow / group + 1);
  uint32_t end = keys.past + (firstRow + there - 1) / group + 1;
  uint32_t tiles = (end + Sweep::tileKeys - 1) / Sweep::tileKeys;
  uint32_t share = (tiles + a.splits - 1) / a.splits * Sweep::tileKeys;
  uint32_t from = split * share, to = from + share < end ? from + share : end;

  TokenRows<E> out(a, head);
  Sweep sweep(simt, shared, a.d);
  QueryRow<E> query[Sweep::laneRows];
#pragma unroll
  for (uint32_t i = 0; i < Sweep::laneRows; ++i) {
    uint32_t row = sweep.row(i);
    row = firstRow + (row < there ? row : there - 1);
    query[i] = {out.query(row), int32_t(row / group)};
  }
  sweep.run(keys, from, to, query, keys.aligned, a.scale);
  sweep.finish(out, firstRow, there, a.splits > 1, split);
}

template <typename E, int D>
void combine(const Simt &simt, const AttendArgs &a) {
  KVC_SHARED(PartsShared<D>, shared, simt);
  uint32_t headRows = a.tokens * (a.qHeads / a.kvHeads);
  addParts(simt, shared, TokenRows<E>(a, simt.blockX() / headRows),
           simt.blockX() % headRows, a.splits, a.d);
}

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_KERNELS_ATTENTION_H
