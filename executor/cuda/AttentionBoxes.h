//===- AttentionBoxes.h - keys and values for the bulk copy engine --------===//

#ifndef KVC_EXECUTOR_CUDA_ATTENTIONBOXES_H
#define KVC_EXECUTOR_CUDA_ATTENTIONBOXES_H

#include "executor/cuda/Queue.h"
#include "executor/cuda/kernels/Args.h"

namespace kvc::gpu {

/// Gives a launch of attend_E_D_rows64 the boxes that it can have: of the cache, which has
/// memory for `places` rows of all heads, or of the tokens where it has no row in any head
/// (0).
void giveBoxes(const Queue &queue, AttendArgs &args, uint32_t places);

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_ATTENTIONBOXES_H
