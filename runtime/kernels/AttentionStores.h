//===- AttentionStores.h - a sweep's rows, to where they go ---------------===//
//
// Means of values with their log-sum-exp, or what a split has of them.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONSTORES_H
#define KVC_RUNTIME_KERNELS_ATTENTIONSTORES_H

#include "runtime/kernels/AttentionSweep.h"

namespace kvc::gpu {

template <typename E, int D, Sharing sharing>
template <typename Output>
void AttentionSweep<E, D, sharing>::finish(const Output &out, uint32_t blockRow,
                                           uint32_t rowsThere, bool isPart,
                                           uint32_t split) {
#pragma unroll
  for (RowState &row : state)
    row.weight = sumOf(simt, 4, row.weight);
  if constexpr (sharesRows)
    storeShared(out, blockRow, rowsThere, isPart, split);
  else
    storeOwn(out, blockRow, rowsThere, isPart, split);
}

/// Each lane what it holds.
template <typename E, int D, Sharing sharing>
template <typename Output>
void AttentionSweep<E, D, sharing>::storeOwn(const Output &out,
                                             uint32_t blockRow,
                                             uint32_t rowsThere, bool isPart,
                                             uint32_t split) {
#pragma unroll
  for (uint32_t i = 0; i < laneRows; ++i) {
    uint32_t r = row(i);
    if (r >= rowsThere)
      continue;
    const auto &of = o[i / 2];
    const uint32_t left = i % 2 * 2, first = lane % 4 * 2;
    auto each = [&](auto two, auto one) {
#pragma unroll
      for (uint32_t t = 0; t < D / 8; ++t)
        if (uint32_t at = t * 8 + first; at + 1 < d)
          two(at, of[t][left], of[t][left + 1]);
        else if (at < d)
          one(at, of[t][left]);
    };
    if (isPart) {
      float *part = out.part(blockRow + r, split);
      each([&](uint32_t at, float a,
               float b) { store(part + at, a), store(part + at + 1, b); },
           [&](uint32_t at, float a) { store(part + at, a); });
      if (lane % 4 == 0) {
        store(part + d, state[i].most);
        store(part + d + 1, state[i].weight);
      }
      continue;
    }
    auto to = out.row(blockRow + r);
    const float share = state[i].mean(1);
    each([&](uint32_t at, float a,
             float b) { to.storeTwo(at, a * share, b * share); },
         [&](uint32_t at, float a) { to.store(at, a * share); });
    if (lane % 4 == 0)
      out.storeLse(blockRow + r, state[i].most + simt.log2(state[i].weight));
  }
}

/// What the warps have of the same rows, added up.
template <typename E, int D, Sharing sharing>
template <typename Output>
void AttentionSweep<E, D, sharing>::storeShared(const Output &out,
                                                uint32_t blockRow,
                                                uint32_t rowsThere, bool isPart,
                                                uint32_t split) {
  // Eight rows begin eight banks apart: stores of two floats do not conflict.
  constexpr uint32_t pitch = D + 8;
  static_assert(sizeof(Tile) >= warps * 16 * pitch * sizeof(float));
  auto *sums = reinterpret_cast<float *>(&shared.tile);
  simt.barrier(); // the tile was used
#pragma unroll
  for (uint32_t i = 0; i < laneRows; ++i)
    if (lane % 4 == 0)
      shared.rows[firstRow() + lane / 4 + i * 8].state = state[i];
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i)
#pragma unroll
    for (uint32_t t = 0; t < D / 8; ++t)
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j)
        sums[(warp * 16 + i * 8 + lane / 4) * pitch + t * 8 + lane % 4 * 2 +
             j] = o[0][t][i * 2 + j];
  simt.barrier();
  for (uint32_t r = warp; r < 16 && r < rowsThere; r += warps) {
    RowState all = shared.rows[r].state;
    for (uint32_t w = 1; w < warps; ++w)
      if (shared.rows[w * 16 + r].state.most > all.most)
        all.most = shared.rows[w * 16 + r].state.most;
    all.weight = 0;
    float share[warps];
#pragma unroll
    for (uint32_t w = 0; w < warps; ++w) {
      const RowState &one = shared.rows[w * 16 + r].state;
      share[w] = simt.exp2(one.most - all.most);
      all.weight += share[w] * one.weight;
    }
    const float *of = sums + r * pitch;
    auto to = out.row(blockRow + r);
    float *part = isPart ? out.part(blockRow + r, split) : nullptr;
#pragma unroll
    for (uint32_t c = 0; c < D / 32; ++c) {
      uint32_t i = lane + c * 32;
      float sum = 0;
#pragma unroll
      for (uint32_t w = 0; w < warps; ++w)
        sum += share[w] * of[w * 16 * pitch + i];
      if (i >= d)
        continue;
      if (isPart)
        store(part + i, sum);
      else
        to.store(i, all.mean(sum));
    }
    if (lane != 0)
      continue;
    if (isPart) {
      store(part + d, all.most);
      store(part + d + 1, all.weight);
    } else {
      out.storeLse(blockRow + r, all.most + simt.log2(all.weight));
    }
  }
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONSTORES_H
