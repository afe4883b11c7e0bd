//===- AttentionParts.h - sums of splits of the keys, added up ------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONPARTS_H
#define KVC_RUNTIME_KERNELS_ATTENTIONPARTS_H

#include "runtime/kernels/AttentionState.h"
#include "runtime/kernels/Simt.h"

namespace kvc::gpu {

template <int D> struct PartsShared {
  float sums[partsWarps][D];
  RowState states[partsWarps];
};

/// A block adds up the parts of a row, and stores it. Output: AttentionState.h.
///
/// A warp has every partsWarps-th part, and reads several of them, states and
/// sums, before it looks at any: with a few hundred parts of a few rows,
/// as in decoding, the time is that of the loads which wait for others.
template <int D, typename Output>
void addParts(const Simt &simt, PartsShared<D> &shared, const Output &out,
              uint32_t row, uint32_t parts, uint32_t d) {
  constexpr uint32_t atOnce = 8, columns = D / 32;
  const float *part = out.part(row, 0);
  uint32_t lane = simt.thread() % warpSize, warp = simt.thread() / warpSize;
  uint32_t pitch = d + 2;
  RowState own = {lowest, 0};
  float sum[columns] = {};
#pragma unroll 1
  for (uint32_t first = warp; first < parts; first += atOnce * partsWarps) {
    RowState of[atOnce];
    float values[atOnce][columns];
#pragma unroll
    for (uint32_t j = 0; j < atOnce; ++j) {
      // Behind the last part the first again, times 0: loads behind a branch would wait.
      uint32_t p = first + j * partsWarps;
      bool there = p < parts;
      const float *from = part + uint64_t(there ? p : first) * pitch;
      of[j] = {from[d], there ? from[d + 1] : 0};
#pragma unroll
      for (uint32_t c = 0; c < columns; ++c) {
        float value = from[lane + c * 32 < d ? lane + c * 32 : d];
        values[j][c] = there ? value : 0;
      }
    }
    float most = own.most;
#pragma unroll
    for (uint32_t j = 0; j < atOnce; ++j)
      most = simt.max(most, of[j].most);
    float fade = simt.exp2(own.most - most);
    own = {most, own.weight * fade};
#pragma unroll
    for (uint32_t c = 0; c < columns; ++c)
      sum[c] *= fade;
#pragma unroll
    for (uint32_t j = 0; j < atOnce; ++j) {
      float share = simt.exp2(of[j].most - most);
      own.weight += share * of[j].weight;
#pragma unroll
      for (uint32_t c = 0; c < columns; ++c)
        sum[c] += share * values[j][c];
    }
  }
#pragma unroll
  for (uint32_t c = 0; c < columns; ++c)
    shared.sums[warp][lane + c * 32] = sum[c];
  if (lane == 0)
    shared.states[warp] = own;
  simt.barrier();
  RowState all = {lowest, 0};
  float shares[partsWarps];
#pragma unroll
  for (uint32_t w = 0; w < partsWarps; ++w)
    all.most = simt.max(all.most, shared.states[w].most);
#pragma unroll
  for (uint32_t w = 0; w < partsWarps; ++w) {
    shares[w] = simt.exp2(shared.states[w].most - all.most);
    all.weight += shares[w] * shared.states[w].weight;
  }
  auto to = out.row(row);
  for (uint32_t i = simt.thread(); i < d; i += partsThreads) {
    float value = 0;
#pragma unroll
    for (uint32_t w = 0; w < partsWarps; ++w)
      value += shares[w] * shared.sums[w][i];
    to.store(i, all.mean(value));
  }
  if (simt.thread() == 0)
    out.storeLse(row, all.most + simt.log2(all.weight));
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONPARTS_H
