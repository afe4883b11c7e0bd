//===- MeasureLayer.h - kvc-run measure -----------------------------------===//
//
// What one layer of a policy takes on the GPU that is there, on a layer of random
// numbers: the whole layer as launches and as a CUDA graph, and each launch. Layers
// whose tokens and queries are 128 MiB together take turns, so that none finds its own
// in the cache.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_COST_MEASURELAYER_H
#define KVC_EXECUTOR_COST_MEASURELAYER_H

#include "executor/cost/RandomLayer.h"

namespace kvc::rt {

struct MeasureOptions : LayerOptions {
  uint32_t repeats = 100;
};

/// Prints a report per T, of the library's first variant. Throws Failure, also where a
/// captured layer does not keep what a launched one keeps.
void measure(const MeasureOptions &options);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_COST_MEASURELAYER_H
