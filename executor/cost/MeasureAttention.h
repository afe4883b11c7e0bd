//===- MeasureAttention.h - kvc-run measure-attention ---------------------===//
//
// What one call of kvc_attend takes on the GPU that is there, as launches and as a
// CUDA graph.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_COST_MEASUREATTENTION_H
#define KVC_EXECUTOR_COST_MEASUREATTENTION_H

#include "executor/cost/RandomCall.h"

namespace kvc::rt {

struct AttentionMeasureOptions : CallOptions {
  uint32_t repeats = 100;
};

/// Prints a report for each number of rows. Throws Failure.
void measureAttention(const AttentionMeasureOptions &options);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_COST_MEASUREATTENTION_H
