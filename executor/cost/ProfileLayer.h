//===- ProfileLayer.h - kvc-run profile -----------------------------------===//
//
// What one layer of a policy takes on a GPU, estimated by running its PTX on a
// layer of random numbers (docs/cost-model.md). No model, no tensors, no GPU.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_COST_PROFILELAYER_H
#define KVC_EXECUTOR_COST_PROFILELAYER_H

#include "executor/cost/RandomLayer.h"

namespace kvc::rt {

struct ProfileOptions : LayerOptions {
  std::string card = "h100";
  uint32_t blocks = 6; // along each dimension of a grid; 0: all
};

/// Prints a report per T, of the library's first variant. A cache of rows has all
/// tokens, and is written in place where the variant writes into a view of its kind. Throws Failure.
void profile(const ProfileOptions &options);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_COST_PROFILELAYER_H
