//===- AttentionLoads.h - how a sweep gets its rows -----------------------===//
//
// Keys, values and queries on their way to the block's memory.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONLOADS_H
#define KVC_RUNTIME_KERNELS_ATTENTIONLOADS_H

#include "runtime/kernels/AttentionSweep.h"

namespace kvc::gpu {

template <typename E, int D, Sharing sharing>
template <uint32_t count, typename To, typename At>
void AttentionSweep<E, D, sharing>::load(To to, bool aligned, bool full,
                                         At at) {
  if constexpr (pieces <= warpSize)
    if (aligned && full && d == D) { // as nearly always: nothing to look at
      constexpr uint32_t step = warpSize / pieces;
      static_assert(count % step == 0);
      uint32_t first = lane % pieces * pieceElements;
#pragma unroll
      for (uint32_t i = 0; i < count; i += step) {
        uint32_t row = lane / pieces + i;
        simt.copy(to.at(row, first), at(row) + first);
      }
      return;
    }
  if (aligned) {
#pragma unroll 1
    for (uint32_t i = lane; i < count * pieces; i += warpSize) {
      uint32_t row = i / pieces, first = i % pieces * pieceElements;
      const E *from = at(row);
      if (from && first < d)
        simt.copy(to.at(row, first), from + first);
      else
        clear(to.at(row, first));
    }
    return;
  }
#pragma unroll 1
  for (uint32_t i = lane; i < count * D; i += warpSize) {
    const E *from = at(i / D);
    *to.at(i / D, i % D) = from ? loadOne(from, i % D, d) : E();
  }
}

template <typename E, int D, Sharing sharing>
void AttentionSweep<E, D, sharing>::loadValues(uint32_t stage, bool aligned,
                                               bool full) {
  const KeyPlace<E> *places = shared.places[stage] + firstKey();
  load<warpKeys>(shared.tile.v(stage).from(firstKey()), aligned, full,
                 [&](uint32_t i) { return places[i].v; });
}

template <typename E, int D, Sharing sharing>
void AttentionSweep<E, D, sharing>::loadKeys(uint32_t stage, bool aligned,
                                             bool full) {
  Rows to = shared.tile.k(stage).from(firstKey());
  const KeyPlace<E> *places = shared.places[stage] + firstKey();
  if (!readsMembers || !simt.any(places[lane % warpKeys].turn))
    return load<warpKeys>(to, aligned, full,
                          [&](uint32_t i) { return places[i].k; });
  uint32_t half = d / 2;
#pragma unroll 1
  for (uint32_t i = lane; i < warpKeys * D; i += warpSize) {
    const KeyPlace<E> &place = places[i / D];
    uint32_t j = i % D, pair = j < half ? j : j - half;
    float value = 0;
    if (place.k && j < d) {
      value = widen(loaded(place.k + j));
      if (place.turn) {
        float x = widen(loaded(place.k + pair)),
              y = widen(loaded(place.k + pair + half)),
              cosine = loaded(place.turn + 2 * pair),
              sine = loaded(place.turn + 2 * pair + 1);
        value = place.norm *
                (j < half ? x * cosine - y * sine : y * cosine + x * sine);
      }
    }
    *to.at(i / D, j) = narrow<E>(value);
  }
}

/// Through the end of the tile, a tile of rows of each warp at a time.
template <typename E, int D, Sharing sharing>
void AttentionSweep<E, D, sharing>::loadQueries(
    const QueryRow<E> (&query)[laneRows], bool aligned, bool negated) {
  Rows through = {shared.tile.rows + (Tile::count - warps * 16) + warp * 16};
  if constexpr (sizeof(E) == 4)
    return products.loadQueries(0, through.rows, query, d, negated);
#pragma unroll
  for (uint32_t tile = 0; tile < rowTiles; ++tile) {
    uint32_t first = firstRow() + tile * 16;
    load<16>(through, aligned, /*full=*/true,
             [&](uint32_t i) { return shared.rows[first + i].query.q; });
    simt.commit();
    simt.wait<0>();
    simt.syncWarp();
    products.loadQueries(int(tile), through.rows, query, d, negated);
    simt.syncWarp();
  }
}

template <typename E, int D, Sharing sharing>
template <typename Keys>
void AttentionSweep<E, D, sharing>::loadTile(const Keys &keys, uint32_t first,
                                             uint32_t to, uint32_t stage) {
  KeyRun run;
  if (isRun(keys, first, to, run)) {
    loadRun(shared.tile.k(stage).from(firstKey()), run.k, run.kStride);
    loadRun(shared.tile.v(stage).from(firstKey()), run.v, run.vStride);
    return;
  }
  tell(place(keys, first, to), stage);
  loadKeys(stage, keys.aligned, has(first, to));
  loadValues(stage, keys.aligned, has(first, to));
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONLOADS_H
