//===- Kernels.cpp - the executor's kernels, by name ----------------------===//
//
// Compiled for NVPTX this is the PTX that the executor loads; compiled for the
// host it is a table of the same kernels for the emulation.
//
//===----------------------------------------------------------------------===//

#include "executor/cuda/kernels/Attention.h"
#include "executor/cuda/kernels/Heads.h"
#include "executor/cuda/kernels/Members.h"
#include "executor/cuda/kernels/Rows.h"
#include "runtime/kernels/Entries.h"

#ifndef __NVPTX__
#include "executor/cuda/kernels/HostKernels.h"
#endif

namespace kvc::gpu {

#define KVC_SWEEP(X, suffix, E, D, end, sharing)                               \
  X(attend_##suffix##_##D##_##end, (attend<E, D, sharing>), AttendArgs,        \
    (AttentionSweep<E, D, sharing>::Shared))
#define KVC_KERNELS_OF_HEADS(X, suffix, E, D)                                  \
  KVC_SWEEP(X, suffix, E, D, keys, Sharing::Rows)                              \
  KVC_SWEEP(X, suffix, E, D, rows, Sharing::Keys)                              \
  X(combine_##suffix##_##D, (combine<E, D>), AttendArgs, (PartsShared<D>))
// Where hasSharing() is true.
#define KVC_KERNELS_OF_HEADS32(X, suffix, E, D)                                \
  KVC_KERNELS_OF_HEADS(X, suffix, E, D)                                        \
  KVC_SWEEP(X, suffix, E, D, rows32, Sharing::Keys32)
#define KVC_KERNELS_TOGETHER(X, suffix, E)                                     \
  KVC_SWEEP(X, suffix, E, 64, rows64, Sharing::Keys64)                         \
  KVC_SWEEP(X, suffix, E, 128, rows64, Sharing::Keys64)
#define KVC_KERNELS_OF_TYPE(X, suffix, E, HEADS)                               \
  X(embed_##suffix, (embed<E>), EmbedArgs, (NoShared))                         \
  X(rms_norm_##suffix, (rmsNorm<E>), RmsNormArgs, (RmsNormShared))             \
  X(swiglu_##suffix, (swiglu<E>), SwigluArgs, (NoShared))                      \
  X(heads_##suffix, (heads<E>), HeadsArgs, (NoShared))                         \
  X(join_##suffix, (join<E>), JoinArgs, (NoShared))                            \
  HEADS(X, suffix, E, 32)                                                      \
  HEADS(X, suffix, E, 64)                                                      \
  HEADS(X, suffix, E, 128)
#define KVC_KERNELS_OF_NO_TYPE(X)                                              \
  X(add_bias, (addBias), AddBiasArgs, (NoShared))                              \
  X(move_rows, (moveRows), MoveRowsArgs, (NoShared))                           \
  X(move_members, (moveMembers), MoveMembersArgs, (NoShared))

// A file of PTX holds what one element type needs; with KVC_TOGETHER what needs sm_90a.
#if defined(KVC_TOGETHER) && defined(KVC_ONLY_F16)
#define KVC_KERNELS(X) KVC_KERNELS_TOGETHER(X, f16, F16)
#elif defined(KVC_TOGETHER)
#define KVC_KERNELS(X) KVC_KERNELS_TOGETHER(X, bf16, BF16)
#elif defined(KVC_ONLY_F32)
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_OF_TYPE(X, f32, float, KVC_KERNELS_OF_HEADS)                     \
  KVC_KERNELS_OF_NO_TYPE(X)
#elif defined(KVC_ONLY_F16)
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_OF_TYPE(X, f16, F16, KVC_KERNELS_OF_HEADS32)                     \
  KVC_KERNELS_OF_NO_TYPE(X)
#elif defined(KVC_ONLY_BF16)
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_OF_TYPE(X, bf16, BF16, KVC_KERNELS_OF_HEADS32)                   \
  KVC_KERNELS_OF_NO_TYPE(X)
#else
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_TOGETHER(X, f16, F16)                                            \
  KVC_KERNELS_TOGETHER(X, bf16, BF16)                                          \
  KVC_KERNELS_OF_TYPE(X, f32, float, KVC_KERNELS_OF_HEADS)                     \
  KVC_KERNELS_OF_TYPE(X, f16, F16, KVC_KERNELS_OF_HEADS32)                     \
  KVC_KERNELS_OF_TYPE(X, bf16, BF16, KVC_KERNELS_OF_HEADS32)                   \
  KVC_KERNELS_OF_NO_TYPE(X)
#endif

KVC_ENTRIES(hostKernels, KVC_KERNELS)

} // namespace kvc::gpu
