//===- Counters.h - what the warps of a launch did ------------------------===//

#ifndef KVC_PTX_PROFILE_COUNTERS_H
#define KVC_PTX_PROFILE_COUNTERS_H

#include "ptx/profile/Cost.h"

#include <algorithm>
#include <array>

namespace kvc::ptx {

/// Sums over all warps. "Issues" are SASS instructions as Cost.h estimates them.
struct Counters {
  std::array<double, unitCount> issues = {};
  double matrix = 0;          // mma.m16n8k16, and wgmma as so many
  double warpgroupMatrix = 0; // those of wgmma
  double special = 0;         // warp operations of the special-function unit

  double sharedRequests = 0;
  double sharedPasses = 0; // wavefronts; more than ideal are bank conflicts
  double sharedIdeal = 0;

  double loadRequests = 0; // of global memory
  double loadSectors = 0;  // of 32 bytes
  double loadIdeal = 0;    // sectors that the distinct bytes need
  double globalPasses = 0; // through L1, loads and stores
  double l2Bytes = 0;      // read from L2 or beyond, and written
  double bulkBytes = 0;    // of those, what the bulk copy engine has brought

  double barriers = 0; // bar.sync, by warp
  double path = 0;     // sum over blocks of the longest warp's clocks

  double totalIssues() const {
    double sum = 0;
    for (double one : issues)
      sum += one;
    return sum;
  }

  /// As if everything had happened `factor` times.
  void scale(double factor) {
    for (double &one : issues)
      one *= factor;
    for (double *one : all())
      *one *= factor;
  }
  Counters &operator+=(const Counters &other) {
    for (size_t i = 0; i < unitCount; ++i)
      issues[i] += other.issues[i];
    Counters copy = other;
    auto to = all(), from = copy.all();
    for (size_t i = 0; i < to.size(); ++i)
      *to[i] += *from[i];
    return *this;
  }

private:
  std::array<double *, 14> all() {
    return {&matrix,       &warpgroupMatrix,
            &special,      &sharedRequests,
            &sharedPasses, &sharedIdeal,
            &loadRequests, &loadSectors,
            &loadIdeal,    &globalPasses,
            &l2Bytes,      &bulkBytes,
            &barriers,     &path};
  }
};

} // namespace kvc::ptx

#endif // KVC_PTX_PROFILE_COUNTERS_H
