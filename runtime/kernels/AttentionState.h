//===- AttentionState.h - what a query row gathers, and who gathers it ----===//
//
// Where the rows of a KV head go, as sweeps and sums of their parts ask for it:
//
//   void store(uint32_t row, uint32_t i, float value) const;
//   void storeLse(uint32_t row, float lse) const;        // to base 2
//   float *part(uint32_t row, uint32_t split) const;     // d sums, and a RowState
//
// Splits of a row follow each other, d + 2 floats each.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONSTATE_H
#define KVC_RUNTIME_KERNELS_ATTENTIONSTATE_H

#include <stdint.h>

namespace kvc::gpu {

/// Below every logit; finite, so that differences are no NaN.
constexpr float lowest = -3e38f;

/// Beside the sum of values, each times 2^(logit - most): the largest logit, times
/// log2(e), and the sum of those weights, 0 where the row saw no key.
struct RowState {
  float most, weight;

  float mean(float sum) const { return weight == 0 ? 0 : sum / weight; }
};

/// The width of kernels for a head dimension of up to 256: 32, 64, 128 or 256.
constexpr uint32_t attentionWidth(uint32_t headDim) {
  uint32_t width = 32;
  while (width < headDim)
    width *= 2;
  return width;
}

/// Warps of a block that sweeps: their tiles of 16 keys and values each fit into
/// 48 KiB.
constexpr uint32_t attentionWarps(uint32_t elementBytes, uint32_t width) {
  return elementBytes * width <= 256 ? 4 : elementBytes * width <= 512 ? 2 : 1;
}
constexpr uint32_t attentionThreads(uint32_t elementBytes, uint32_t width) {
  return attentionWarps(elementBytes, width) * 32;
}

/// Query rows of a block; `byKeys`: its warps share them, and differ in keys.
constexpr uint32_t attentionRows(uint32_t elementBytes, uint32_t width,
                                 bool byKeys) {
  return byKeys ? 16 : 16 * attentionWarps(elementBytes, width);
}

/// Of a block that adds up the parts of a row.
constexpr uint32_t partsWarps = 4, partsThreads = partsWarps * 32;

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONSTATE_H
