//===- AttentionParts.h - sums of splits of the keys, added up ------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONPARTS_H
#define KVC_RUNTIME_KERNELS_ATTENTIONPARTS_H

#include "runtime/kernels/AttentionState.h"
#include "runtime/kernels/Simt.h"

namespace kvc::gpu {

template <int D> struct PartsShared {
  float sums[partsWarps][D], weights[partsWarps];
};

/// A block adds up the parts of a row, and stores it. Output: AttentionState.h.
template <int D, typename Output>
void addParts(const Simt &simt, PartsShared<D> &shared, const Output &out,
              uint32_t row, uint32_t parts, uint32_t d) {
  const float *part = out.part(row, 0);
  uint32_t lane = simt.thread() % warpSize, warp = simt.thread() / warpSize;
  uint32_t pitch = d + 2;
  RowState all = {lowest, 0};
  for (uint32_t p = lane; p < parts; p += warpSize) {
    float most = part[p * pitch + d];
    all.most = most > all.most ? most : all.most;
  }
  all.most = mostOf(simt, warpSize, all.most);

  // A warp adds up every partsWarps-th. No branch: many loads are on their way.
  float sum[D / 32] = {}, weight = 0;
#pragma unroll 4
  for (uint32_t p = warp; p < parts; p += partsWarps) {
    const float *from = part + p * pitch;
    float share = simt.exp2(from[d] - all.most);
    weight += share * from[d + 1];
#pragma unroll
    for (uint32_t c = 0; c < D / 32; ++c)
      sum[c] += share * from[lane + c * 32 < d ? lane + c * 32 : d];
  }
#pragma unroll
  for (uint32_t c = 0; c < D / 32; ++c)
    shared.sums[warp][lane + c * 32] = sum[c];
  if (lane == 0)
    shared.weights[warp] = weight;
  simt.barrier();
  for (uint32_t w = 0; w < partsWarps; ++w)
    all.weight += shared.weights[w];
  for (uint32_t i = simt.thread(); i < d; i += partsThreads) {
    float value = 0;
    for (uint32_t w = 0; w < partsWarps; ++w)
      value += shared.sums[w][i];
    out.store(row, i, all.mean(value));
  }
  if (simt.thread() == 0)
    out.storeLse(row, all.most + simt.log2(all.weight));
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONPARTS_H
