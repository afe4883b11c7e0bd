//===- RandomCall.h - attention over a cache of random numbers ------------===//

#ifndef KVC_EXECUTOR_COST_RANDOMCALL_H
#define KVC_EXECUTOR_COST_RANDOMCALL_H

#include "executor/eviction/Arena.h"
#include "kvc/attend.h"
#include "kvc/cache.h"

#include <string>

namespace kvc::rt {

/// What a call of kvc_attend is like.
struct CallOptions {
  std::vector<uint32_t> rows; // of a KV head on average, a call each
  uint32_t queries = 1;       // of each sequence; 0: as many as rows
  uint32_t batch = 1, kvHeads = 8, group = 4, headDim = 128;
  kvc_dtype dtype = KVC_BF16;
  /// Of the longest head's rows to the shortest's; heads between are as far apart.
  uint32_t skew = 1;
  /// Slots of a page; 0: heads behind each other in one memory.
  uint32_t page = 0;
  std::string json; // a file for the numbers; empty: none
};

/// A cache whose heads have rows of their own numbers, and a call over it.
class RandomCall {
public:
  /// Throws Failure where there are more rows than a view has.
  RandomCall(const CallOptions &options, uint32_t mean, kvc_target_kind target,
             Device &device);
  RandomCall(const RandomCall &) = delete;

  uint32_t longest = 0;
  kvc_attend_args args = {};

private:
  Arena arena;
  kvc_cache_view view = {};
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_COST_RANDOMCALL_H
