//===- AttentionState.h - what a query row has gathered -------------------===//

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
};

/// Warps of a block that sweeps: their tiles of 16 keys and values each fit into
/// 48 KiB.
constexpr uint32_t attentionWarps(uint32_t elementBytes, uint32_t dim) {
  return elementBytes * dim <= 256 ? 4 : elementBytes * dim <= 512 ? 2 : 1;
}

/// Query rows of a block; `byKeys`: its warps share them, and differ in keys.
constexpr uint32_t attentionRows(uint32_t elementBytes, uint32_t dim,
                                 bool byKeys) {
  return byKeys ? 16 : 16 * attentionWarps(elementBytes, dim);
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONSTATE_H
