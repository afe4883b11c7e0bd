//===- TensorMap.h - what the bulk copy engine knows of a tensor ----------===//

#ifndef KVC_RUNTIME_KERNELS_TENSORMAP_H
#define KVC_RUNTIME_KERNELS_TENSORMAP_H

#include <stdint.h>

namespace kvc::gpu {

/// The driver's CUtensorMap, or what another device reads (Device::mapTensor).
struct alignas(128) TensorMap {
  uint64_t words[16];
};

/// Keys and values, in boxes of 64 elements of `rows` rows, that kernels for four warps that
/// multiply together are launched with.
struct BoxArgs {
  TensorMap k, v;
  uint32_t rows; // 0: there are no maps
};

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_TENSORMAP_H
