//===- Kernels.cpp - the runtime's kernels, by name -----------------------===//
//
// For NVPTX a file for each element type and D, of which a process loads those that it
// uses: -DKVC_TYPE=bf16 -DKVC_DIM=128; with -DKVC_TOGETHER those that need sm_90a. For the
// host a table of all.
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

#define KVC_SWEEP(X, E, D, end, sharing)                                       \
  X(attend_view_##E##_##D##_##end, (attendView<E, D, sharing>),                \
    AttendViewArgs, (AttentionSweep<E, D, sharing>::Shared))
#define KVC_KERNELS_OF_DIM(X, E, D)                                            \
  KVC_SWEEP(X, E, D, keys, Sharing::Rows)                                      \
  KVC_SWEEP(X, E, D, rows, Sharing::Keys)                                      \
  X(add_view_parts_##E##_##D, (addViewParts<E, D>), AttendViewArgs,            \
    (PartsShared<D>))
#define KVC_KERNELS_OF_TYPE(X, E)                                              \
  X(append_##E, (append<E>), AppendArgs, (AppendShared))
#define KVC_KERNELS_OF_NO_TYPE(X)                                              \
  X(append_counts, (appendCounts), AppendArgs, (AppendShared))

// Where hasSharing() is true.
#define KVC_KERNELS_OF_DIM32(X, E, D)                                          \
  KVC_KERNELS_OF_DIM(X, E, D)                                                  \
  KVC_SWEEP(X, E, D, rows32, Sharing::Keys32)
#define KVC_KERNELS_OF_DIM64(X, E, D)                                          \
  KVC_SWEEP(X, E, D, rows64, Sharing::Keys64)

#if defined(KVC_TOGETHER)
#define KVC_KERNELS_OF(X, E, D) KVC_KERNELS_OF_DIM64(X, E, D)
#define KVC_KERNELS(X) KVC_KERNELS_OF(X, KVC_TYPE, KVC_DIM)
#elif defined(KVC_TYPE)
#define KVC_BYTES_f32 4
#define KVC_BYTES_f16 2
#define KVC_BYTES_bf16 2
#define KVC_BYTES_OF(E) KVC_BYTES_##E
#define KVC_BYTES(E) KVC_BYTES_OF(E)
#if KVC_BYTES(KVC_TYPE) == 2 && KVC_DIM <= 128
#define KVC_KERNELS_OF(X, E, D)                                                \
  KVC_KERNELS_OF_DIM32(X, E, D)                                                \
  KVC_KERNELS_OF_TYPE(X, E)
#else
#define KVC_KERNELS_OF(X, E, D)                                                \
  KVC_KERNELS_OF_DIM(X, E, D)                                                  \
  KVC_KERNELS_OF_TYPE(X, E)
#endif
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_OF(X, KVC_TYPE, KVC_DIM)                                         \
  KVC_KERNELS_OF_NO_TYPE(X)
#else
#define KVC_KERNELS_OF(X, E, DIM)                                              \
  DIM(X, E, 32)                                                                \
  DIM(X, E, 64)                                                                \
  DIM(X, E, 128)                                                               \
  KVC_KERNELS_OF_DIM(X, E, 256)                                                \
  KVC_KERNELS_OF_TYPE(X, E)
#define KVC_KERNELS_TOGETHER(X, E)                                             \
  KVC_KERNELS_OF_DIM64(X, E, 64)                                               \
  KVC_KERNELS_OF_DIM64(X, E, 128)                                              \
  KVC_KERNELS_OF_DIM64(X, E, 256)
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_TOGETHER(X, f16)                                                 \
  KVC_KERNELS_TOGETHER(X, bf16)                                                \
  KVC_KERNELS_OF(X, f32, KVC_KERNELS_OF_DIM)                                   \
  KVC_KERNELS_OF(X, f16, KVC_KERNELS_OF_DIM32)                                 \
  KVC_KERNELS_OF(X, bf16, KVC_KERNELS_OF_DIM32)                                \
  KVC_KERNELS_OF_NO_TYPE(X)
#endif

KVC_ENTRIES(viewKernels, KVC_KERNELS)

} // namespace kvc::gpu
