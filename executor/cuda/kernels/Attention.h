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
    rows = c.counts ? uint32_t(c.counts[head]) : 0;
    members = c.merged ? uint32_t(c.memberCounts[head]) : 0;
    past = (c.merged ? members : rows) + c.extra;
  }
  uint32_t past, whole = 0;
  const bool aligned;

  KeyPlace<E> place(uint32_t i, bool) const {
    const CacheArgs &c = a.cache;
    KeyPlace<E> place = {};
    bool cached = i < past;
    uint64_t row = uint64_t(head) * a.tokens + (i - past);
    if (i < members) {
      uint32_t entry = uint32_t(c.memberOffsets[head]) + i;
      row = uint32_t(c.offsets[head]) + uint32_t(c.memberRows[entry]);
      place.norm = c.memberNorms[entry];
      place.turn = c.rope + uint64_t(uint32_t(c.memberPositions[entry])) * a.d;
    } else if (cached) {
      row = uint32_t(c.offsets[head]) + rows + i - (c.merged ? members : rows);
    }
    place.k = static_cast<const E *>(cached ? c.k : a.k) + row * a.d;
    place.v = static_cast<const E *>(cached ? c.v : a.v) + row * a.d;
    place.position = cached ? -1 : int32_t(i - past);
    return place;
  }

private:
  const AttendArgs &a;
  uint32_t head, rows, members;
};

template <typename E, int D, bool byKeys>
void attend(const Simt &simt, const AttendArgs &a) {
  using Sweep = AttentionSweep<E, D, byKeys>;
  KVC_SHARED(typename Sweep::Shared, shared, simt);
  uint32_t head = simt.blockY(), split = simt.blockZ();
  uint32_t group = a.qHeads / a.kvHeads, rows = a.tokens * group;
  // The last rows see most: they go first, or they would be waited for.
  uint32_t firstRow = ((rows - 1) / Sweep::rows - simt.blockX()) * Sweep::rows;
  uint32_t there =
      rows - firstRow < Sweep::rows ? rows - firstRow : Sweep::rows;
  CacheThenTokens<E> keys(a, head);
  keys.whole = keys.past + firstRow / group + 1;
  uint32_t end = keys.past + (firstRow + there - 1) / group + 1;
  uint32_t tiles = (end + Sweep::tileKeys - 1) / Sweep::tileKeys;
  uint32_t share = (tiles + a.splits - 1) / a.splits * Sweep::tileKeys;
  uint32_t from = split * share, to = from + share < end ? from + share : end;

  Sweep sweep(simt, shared, a.d);
  QueryRow<E> query[2];
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i) {
    uint32_t row = sweep.row(i);
    row = firstRow + (row < there ? row : there - 1);
    uint64_t at = uint64_t(head * group + row % group) * a.tokens + row / group;
    query[i] = {static_cast<const E *>(a.q) + at * a.d, int32_t(row / group)};
  }
  sweep.run(keys, from, to, query, keys.aligned, a.scale);

  struct Sink {
    const Simt &simt;
    const AttendArgs &a;
    uint32_t head, group, firstRow, split;
    uint64_t at(uint32_t r) const { // [Hq, T]
      uint32_t row = firstRow + r;
      return uint64_t(head * group + row % group) * a.tokens + row / group;
    }
    float *part(uint32_t r) const {
      return a.parts + (at(r) * a.splits + split) * (a.d + 2);
    }
    void value(uint32_t r, uint32_t i, float sum, const RowState &state) const {
      uint64_t row = at(r), outRow = row % a.tokens * a.qHeads + row / a.tokens;
      if (a.splits > 1)
        store(part(r) + i, sum);
      else
        store(static_cast<E *>(a.out) + outRow * a.d + i,
              narrow<E>(sum / state.weight));
    }
    void row(uint32_t r, const RowState &state) const {
      if (a.splits > 1) {
        store(part(r) + a.d, state.most);
        store(part(r) + a.d + 1, state.weight);
      } else {
        store(a.lse + at(r), (state.most + simt.log2(state.weight)) * ln2);
      }
    }
  };
  sweep.finish(there, Sink{simt, a, head, group, firstRow, split});
}

template <typename E, int D>
void combine(const Simt &simt, const CombineArgs &a) {
  KVC_SHARED(PartsShared<D>, shared, simt);
  struct Sink {
    const Simt &simt;
    const CombineArgs &a;
    uint64_t at; // [Hq, T]
    void value(uint32_t i, float sum, const RowState &state) const {
      uint64_t outRow = at % a.tokens * a.qHeads + at / a.tokens;
      static_cast<E *>(a.out)[outRow * a.d + i] = narrow<E>(sum / state.weight);
    }
    void row(const RowState &state) const {
      a.lse[at] = (state.most + simt.log2(state.weight)) * ln2;
    }
  } sink = {simt, a, simt.blockX()};
  addParts(simt, shared, a.parts + sink.at * a.splits * (a.d + 2), a.splits,
           a.d, sink);
}

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_KERNELS_ATTENTION_H
