//===- Ptx.h - the executor's kernels as PTX, embedded --------------------===//

#ifndef KVC_EXECUTOR_CUDA_PTX_H
#define KVC_EXECUTOR_CUDA_PTX_H

#include "kvc/kvc.h"

namespace kvc::gpu {

/// The chip that the PTX is for; later ones run it, too.
constexpr int ptxChip = 80;

/// kernels/Kernels.cpp for one element type.
const char *ptxOf(kvc_dtype dtype);
/// Of it what runs on sm_90 alone; null: nothing.
const char *togetherPtxOf(kvc_dtype dtype);
constexpr int togetherPtxChip = 90;

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_PTX_H
