//===- ProfileAttention.h - kvc-run profile-attention ---------------------===//
//
// What one call of kvc_attend takes on a GPU, estimated by running its PTX
// (docs/cost-model.md).
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_EVICTION_PROFILEATTENTION_H
#define KVC_EXECUTOR_EVICTION_PROFILEATTENTION_H

#include "kvc/kvc.h"

#include <string>
#include <vector>

namespace kvc::rt {

struct AttentionProfileOptions {
  std::vector<uint32_t> rows; // of a KV head on average, one profile each
  uint32_t queries = 1;       // of each sequence; 0: as many as rows
  uint32_t batch = 1, kvHeads = 8, group = 4, headDim = 128;
  kvc_dtype dtype = KVC_BF16;
  /// Of the longest head's rows to the shortest's; heads between are as far apart.
  uint32_t skew = 1;
  uint32_t page =
      0; // slots of a page; 0: heads behind each other in one memory
  std::string card = "h100";
  uint32_t blocks = 6; // along each dimension of a grid; 0: all
  std::string json;    // a file for the numbers; empty: none
};

/// Prints a report for each number of rows. Throws Failure.
void profileAttention(const AttentionProfileOptions &options);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_PROFILEATTENTION_H
