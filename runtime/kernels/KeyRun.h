//===- KeyRun.h - rows of a cache that follow each other ------------------===//

#ifndef KVC_RUNTIME_KERNELS_KEYRUN_H
#define KVC_RUNTIME_KERNELS_KEYRUN_H

#include <stdint.h>

namespace kvc::gpu {

/// The first row's key and value, how many bytes from one row to the next, and the first key
/// behind those that still lie so.
struct KeyRun {
  const char *k, *v;
  uint32_t kStride, vStride;
  uint32_t until;
};

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_KEYRUN_H
