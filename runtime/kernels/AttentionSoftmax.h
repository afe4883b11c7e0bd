//===- AttentionSoftmax.h - logits to weights -----------------------------===//
//
// Which keys a row sees, and the online softmax of a tile.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONSOFTMAX_H
#define KVC_RUNTIME_KERNELS_ATTENTIONSOFTMAX_H

#include "runtime/kernels/AttentionSweep.h"

namespace kvc::gpu {

template <typename E, int D, Sharing sharing>
template <typename Keys>
void AttentionSweep<E, D, sharing>::hide(Logits &c, const Keys &keys,
                                         uint32_t first, uint32_t to,
                                         uint32_t stage) const {
  if (first + tileKeys <= to && first + tileKeys <= keys.whole)
    return;
  const uint32_t own = sharesRows ? firstKey() : 0, column = lane % 4 * 2;
#pragma unroll
  for (uint32_t i = 0; i < laneRows; ++i) {
    int32_t position =
        shared.rows[firstRow() + lane / 4 + i * 8].query.position;
#pragma unroll
    for (int t = 0; t < Products::blocks; ++t)
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        uint32_t key = own + uint32_t(t) * 8 + column + j;
        bool seen = first + key < to &&
                    (first + key < keys.whole ||
                     shared.places[stage][key].position <= position);
        float &x = c[i / 2][t][i % 2 * 2 + j];
        x = seen ? x : -__builtin_inff();
      }
  }
}

template <typename E, int D, Sharing sharing>
template <typename Keys>
void AttentionSweep<E, D, sharing>::hideBehind(Logits &c, const Keys &keys,
                                               uint32_t first, uint32_t to,
                                               uint32_t stage) const {
  if (first + tileKeys <= to && first + tileKeys <= keys.whole)
    return;
  const uint32_t there = to - first < tileKeys ? to - first : tileKeys,
                 whole = keys.whole > first ? keys.whole - first : 0;
#pragma unroll
  for (uint32_t i = 0; i < laneRows; ++i) {
    int32_t position =
        shared.rows[firstRow() + lane / 4 + i * 8].query.position;
    uint32_t seen = whole < there ? whole : there, end = there;
    while (seen < end) {
      uint32_t middle = seen + (end - seen) / 2;
      if (shared.places[stage][middle].position <= position)
        seen = middle + 1;
      else
        end = middle;
    }
    const uint32_t left = i % 2 * 2;
#pragma unroll
    for (uint32_t t = 0; t < uint32_t(Products::blocks); ++t)
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        float &x = c[i / 2][t][left + j];
        x = t * 8 + lane % 4 * 2 + j < seen ? x : -__builtin_inff();
      }
  }
}

/// Of a power of two numbers, the result of all by neighbours.
template <uint32_t count, typename Both>
float treeOf(const float (&of)[count], Both both) {
  float some[count];
#pragma unroll
  for (uint32_t i = 0; i < count; ++i)
    some[i] = of[i];
#pragma unroll
  for (uint32_t step = 1; step < count; step *= 2)
#pragma unroll
    for (uint32_t i = 0; i + step < count; i += 2 * step)
      some[i] = both(some[i], some[i + step]);
  return some[0];
}

/// Logits to weights; false: what was added before counts as it is.
template <typename E, int D, Sharing sharing>
bool AttentionSweep<E, D, sharing>::soften(Logits &c, float scale,
                                           float (&fade)[laneRows]) {
  // Where registers have room; those of 32 rows a warp are all taken.
  constexpr uint32_t chains = together ? 4 : 1;
  bool fades = false;
#pragma unroll
  for (uint32_t i = 0; i < laneRows; ++i) {
    auto &of = c[i / 2];
    const uint32_t left = i % 2 * 2;
    // Several chains: one of all would be waited for at each step.
    float tops[chains], sums[chains] = {};
#pragma unroll
    for (int t = 0; t < Products::blocks; ++t)
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        uint32_t n = uint32_t(t) * 2 + j;
        float x = of[t][left + j];
        tops[n % chains] = n < chains ? x : simt.max(tops[n % chains], x);
      }
    float top = mostOf(simt, 4, treeOf(tops, simt.max));
    top = simt.max(state[i].most, top * scale);
    fade[i] = simt.exp2(state[i].most - top);
    fades |= fade[i] != 1;
    state[i].most = top;
#pragma unroll
    for (int t = 0; t < Products::blocks; ++t)
#pragma unroll
      for (uint32_t j = left; j < left + 2; ++j) {
        of[t][j] = simt.exp2(__builtin_fmaf(of[t][j], scale, -top));
        sums[(uint32_t(t) * 2 + j) % chains] += of[t][j];
      }
    float sum = treeOf(sums, [](float a, float b) { return a + b; });
    state[i].weight = state[i].weight * fade[i] + sum; // of this lane's columns
  }
  return simt.any(fades); // something larger has come, as seldom
}

template <typename E, int D, Sharing sharing>
void AttentionSweep<E, D, sharing>::weaken(const float (&fade)[laneRows]) {
#pragma unroll
  for (uint32_t tile = 0; tile < rowTiles; ++tile)
#pragma unroll
    for (int t = 0; t < D / 8; ++t)
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i)
        o[tile][t][i] *= fade[2 * tile + i / 2];
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONSOFTMAX_H
