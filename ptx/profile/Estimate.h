//===- Estimate.h - the time of a launch on a card ------------------------===//
//
// From counters, by throughput: each resource of the card is busy for so long, the
// launch takes at least as long as the busiest. Resources overlap, but not
// perfectly: the high estimate is 1.15 times the root of the sum of squares. An
// estimate and no measurement; docs/cost-model.md says what it leaves out.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_PROFILE_ESTIMATE_H
#define KVC_PTX_PROFILE_ESTIMATE_H

#include "ptx/profile/Profiler.h"

namespace kvc::ptx {

enum class Resource {
  Issue,   // instructions
  Memory,  // the pipe to shared memory and L1
  Matrix,  // tensor cores
  Special, // exponentials and the like
  Integer,
  L2,
  Dram,
  Latency // of the longest warps, one after the other
};
inline constexpr size_t resourceCount = size_t(Resource::Latency) + 1;
const char *resourceName(Resource resource);

/// In seconds.
struct Estimate {
  std::array<double, resourceCount> busy = {};
  Resource binding = Resource::Issue;
  double low = 0, high = 0, middle = 0; // the launch itself included
  /// What no kernel with the same bytes and matrix products could go below.
  double floor = 0;
  double ratio() const { return middle / floor; }
};

Estimate estimate(const LaunchProfile &profile, const Card &card);

} // namespace kvc::ptx

#endif // KVC_PTX_PROFILE_ESTIMATE_H
