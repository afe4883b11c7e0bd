//===- ProfileAttention.h - kvc-run profile-attention ---------------------===//
//
// What one call of kvc_attend takes on a GPU, estimated by running its PTX
// (docs/cost-model.md).
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_COST_PROFILEATTENTION_H
#define KVC_EXECUTOR_COST_PROFILEATTENTION_H

#include "executor/cost/RandomCall.h"

namespace kvc::rt {

struct AttentionProfileOptions : CallOptions {
  std::string card = "h100";
  uint32_t blocks = 6; // along each dimension of a grid; 0: all
};

/// Prints a report for each number of rows. Throws Failure.
void profileAttention(const AttentionProfileOptions &options);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_COST_PROFILEATTENTION_H
