//===- KeyRun.h - rows of a cache that follow each other ------------------===//

#ifndef KVC_RUNTIME_KERNELS_KEYRUN_H
#define KVC_RUNTIME_KERNELS_KEYRUN_H

#include <stdint.h>

namespace kvc::gpu {

/// The first row's key and value, and how many bytes from one row to the next.
struct KeyRun {
  const char *k, *v;
  uint32_t kStride, vStride;
};

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_KEYRUN_H
