//===- AttentionParts.h - sums of splits of the keys, added up ------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONPARTS_H
#define KVC_RUNTIME_KERNELS_ATTENTIONPARTS_H

#include "runtime/kernels/AttentionState.h"
#include "runtime/kernels/Simt.h"

namespace kvc::gpu {

/// A block adds up the parts of an output row.
constexpr uint32_t partsWarps = 4, partsThreads = partsWarps * warpSize;

template <int D> struct PartsShared {
  float sums[partsWarps][D], weights[partsWarps];
};

/// `part` has [parts, d + 2]: sums of values, most, weight. Calls sink.value(i, sum,
/// state) for each of d values and sink.row(state).
template <int D, typename Sink>
void addParts(const Simt &simt, PartsShared<D> &shared, const float *part,
              uint32_t parts, uint32_t d, const Sink &sink) {
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
    sink.value(i, value, all);
  }
  if (simt.thread() == 0)
    sink.row(all);
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONPARTS_H
