//===- Kernels.cpp - the runtime's kernels, by name -----------------------===//
//
// For NVPTX a file for each element type and D, of which a process loads those that it
// uses: -DKVC_TYPE=bf16 -DKVC_DIM=128. For the host a table of all.
//
//===----------------------------------------------------------------------===//

#include "runtime/kernels/Append.h"
#include "runtime/kernels/Attend.h"
#include "runtime/kernels/Entries.h"

#ifndef __NVPTX__
#include "runtime/kernels/HostKernels.h"
#endif

namespace kvc::gpu {

using f32 = float;
using f16 = F16;
using bf16 = BF16;

#define KVC_KERNELS_OF_DIM(X, E, D)                                            \
  X(attend_view_##E##_##D##_rows, (attendView<E, D, false>), AttendViewArgs,   \
    (AttentionSweep<E, D, false>::Shared))                                     \
  X(attend_view_##E##_##D##_keys, (attendView<E, D, true>), AttendViewArgs,    \
    (AttentionSweep<E, D, true>::Shared))                                      \
  X(add_view_parts_##E##_##D, (addViewParts<E, D>), AttendViewArgs,            \
    (PartsShared<D>))
#define KVC_KERNELS_OF_TYPE(X, E)                                              \
  X(append_##E, (append<E>), AppendArgs, (AppendShared))
#define KVC_KERNELS_OF_NO_TYPE(X)                                              \
  X(append_counts, (appendCounts), AppendArgs, (AppendShared))

#ifdef KVC_TYPE
#define KVC_KERNELS_OF(X, E, D)                                                \
  KVC_KERNELS_OF_DIM(X, E, D)                                                  \
  KVC_KERNELS_OF_TYPE(X, E)
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_OF(X, KVC_TYPE, KVC_DIM)                                         \
  KVC_KERNELS_OF_NO_TYPE(X)
#else
#define KVC_KERNELS_OF(X, E)                                                   \
  KVC_KERNELS_OF_DIM(X, E, 32)                                                 \
  KVC_KERNELS_OF_DIM(X, E, 64)                                                 \
  KVC_KERNELS_OF_DIM(X, E, 128)                                                \
  KVC_KERNELS_OF_DIM(X, E, 256)                                                \
  KVC_KERNELS_OF_TYPE(X, E)
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_OF(X, f32)                                                       \
  KVC_KERNELS_OF(X, f16)                                                       \
  KVC_KERNELS_OF(X, bf16)                                                      \
  KVC_KERNELS_OF_NO_TYPE(X)
#endif

KVC_ENTRIES(viewKernels, KVC_KERNELS)

} // namespace kvc::gpu
