//===- ProfileLayer.h - kvc-run profile -----------------------------------===//
//
// What one layer of a policy takes on a GPU, estimated by running its PTX on a
// layer of random numbers (docs/cost-model.md). No model, no tensors, no GPU.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_EVICTION_PROFILELAYER_H
#define KVC_EXECUTOR_EVICTION_PROFILELAYER_H

#include <cstdint>
#include <string>
#include <vector>

namespace kvc::rt {

struct ProfileOptions {
  std::string policy;
  std::vector<uint32_t> tokens; // T, one profile each
  uint32_t kvHeads = 8, hidden = 4096;
  std::string budget, keep; // exactly one is given
  std::string card = "h100";
  bool lse = true;     // the engine brings the log-sum-exp
  uint32_t blocks = 6; // along each dimension of a grid; 0: all
  uint32_t page = 16;  // slots of a page, of a library for a paged cache
  float spread = 1;    // standard deviation of the logits
  std::string json;    // a file for the numbers; empty: none
};

/// Prints a report per T, of the library's first variant. A cache of rows has all
/// tokens, and is written in place where the variant writes into a view of its kind. Throws Failure.
void profile(const ProfileOptions &options);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_PROFILELAYER_H
