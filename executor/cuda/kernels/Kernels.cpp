//===- Kernels.cpp - the executor's kernels, by name ----------------------===//
//
// Compiled for NVPTX this is the PTX that the executor loads; compiled for the
// host it is a table of the same kernels for the emulation.
//
//===----------------------------------------------------------------------===//

#include "executor/cuda/kernels/Attention.h"
#include "executor/cuda/kernels/Cache.h"
#include "executor/cuda/kernels/Heads.h"
#include "executor/cuda/kernels/Rows.h"

#ifndef __NVPTX__
#include "executor/cuda/kernels/HostKernels.h"
#endif

namespace kvc::gpu {

struct NoShared {};

// X(name, function, arguments, shared memory)
#define KVC_KERNELS_OF_HEADS(X, suffix, E, D)                                  \
  X(attend_##suffix##_##D, (attend<E, D>), AttendArgs,                         \
    (AttentionTile<E, D>::Shared))
#define KVC_KERNELS_OF_TYPE(X, suffix, E)                                      \
  X(embed_##suffix, (embed<E>), EmbedArgs, (NoShared))                         \
  X(rms_norm_##suffix, (rmsNorm<E>), RmsNormArgs, (RmsNormShared))             \
  X(swiglu_##suffix, (swiglu<E>), SwigluArgs, (NoShared))                      \
  X(heads_##suffix, (heads<E>), HeadsArgs, (NoShared))                         \
  X(combine_##suffix, (combine<E>), CombineArgs, (NoShared))                   \
  KVC_KERNELS_OF_HEADS(X, suffix, E, 16)                                       \
  KVC_KERNELS_OF_HEADS(X, suffix, E, 32)                                       \
  KVC_KERNELS_OF_HEADS(X, suffix, E, 64)                                       \
  KVC_KERNELS_OF_HEADS(X, suffix, E, 128)
#define KVC_KERNELS_OF_NO_TYPE(X)                                              \
  X(add_bias, (addBias), AddBiasArgs, (NoShared))                              \
  X(move_rows, (moveRows), MoveRowsArgs, (NoShared))                           \
  X(move_members, (moveMembers), MoveMembersArgs, (NoShared))

// A file of PTX holds what one element type needs.
#if defined(KVC_ONLY_F32)
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_OF_TYPE(X, f32, float)                                           \
  KVC_KERNELS_OF_NO_TYPE(X)
#elif defined(KVC_ONLY_F16)
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_OF_TYPE(X, f16, F16)                                             \
  KVC_KERNELS_OF_NO_TYPE(X)
#elif defined(KVC_ONLY_BF16)
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_OF_TYPE(X, bf16, BF16)                                           \
  KVC_KERNELS_OF_NO_TYPE(X)
#else
#define KVC_KERNELS(X)                                                         \
  KVC_KERNELS_OF_TYPE(X, f32, float)                                           \
  KVC_KERNELS_OF_TYPE(X, f16, F16)                                             \
  KVC_KERNELS_OF_TYPE(X, bf16, BF16)                                           \
  KVC_KERNELS_OF_NO_TYPE(X)
#endif

// Types with commas travel in parentheses.
template <typename T> struct Unwrap;
template <typename T> struct Unwrap<void(T)> { using Type = T; };

#ifdef __NVPTX__
#define KVC_DEFINE(name, function, Args, Shared)                               \
  extern "C" __attribute__((device_kernel)) void name(const Args args) {       \
    function(Simt(), args);                                                    \
  }
KVC_KERNELS(KVC_DEFINE)
#else
#define KVC_ENTRY(name, function, Args, Shared)                                \
  {#name,                                                                      \
   [](kvc_simt_thread *thread, const uint64_t *args) {                         \
     function(Simt(thread), *reinterpret_cast<const Args *>(args));            \
   },                                                                          \
   sizeof(Unwrap<void Shared>::Type), nullptr, KVC_ANY_PROCESSOR},
static const kvc_host_entry entries[] = {KVC_KERNELS(KVC_ENTRY)};
const std::span<const kvc_host_entry> hostKernels = entries;
#endif

} // namespace kvc::gpu
