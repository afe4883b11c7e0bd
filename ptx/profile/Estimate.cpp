//===- Estimate.cpp -------------------------------------------------------===//

#include "ptx/profile/Estimate.h"

#include <cmath>

using namespace kvc::ptx;

const char *kvc::ptx::resourceName(Resource resource) {
  static constexpr const char *names[] = {"issue",   "memory pipe", "matrix",
                                          "special", "integer",     "L2",
                                          "DRAM",    "latency"};
  static_assert(std::size(names) == resourceCount);
  return names[size_t(resource)];
}

Estimate kvc::ptx::estimate(const LaunchProfile &profile, const Card &card) {
  const Counters &n = profile.counters;
  // SMs that have a block with work. Each has four quarters with a scheduler, 16 lanes of
  // integer units, 4 of special functions and tensor cores of their own.
  double used =
      double(std::min<uint64_t>(card.multiprocessors, profile.working));
  double quarters = 4 * used;
  // Moves and address arithmetic that matrix fragments need and PTX does not
  // show; elsewhere ptxas merges more than it adds.
  double weight = n.matrix > 0 ? 1.25 : 0.85;
  double integer = n.issues[size_t(Unit::Integer)];

  Estimate result;
  auto set = [&](Resource resource, double clocks) {
    result.busy[size_t(resource)] = clocks / card.clock;
  };
  set(Resource::Issue, n.totalIssues() * weight / quarters);
  set(Resource::Memory, (n.sharedPasses + n.globalPasses) / used);
  set(Resource::Matrix, (card.matrixClocks * (n.matrix - n.warpgroupMatrix) +
                         warpgroupMatrixClocks(card) * n.warpgroupMatrix) /
                            quarters);
  set(Resource::Special, 8 * n.special / quarters);
  set(Resource::Integer, 2 * integer * weight / quarters);
  double l2Rate = std::min(card.l2Bytes, used * l2BytesOfSM * card.clock);
  result.busy[size_t(Resource::L2)] = n.l2Bytes / l2Rate;
  result.busy[size_t(Resource::Dram)] =
      (profile.dramRead + profile.dramWritten) / card.dramBytes;
  set(Resource::Latency,
      std::max(profile.longestPath, n.path / (used * profile.resident)));

  double most = 0, squares = 0;
  for (size_t i = 0; i < resourceCount; ++i) {
    squares += result.busy[i] * result.busy[i];
    if (result.busy[i] > most) {
      most = result.busy[i];
      result.binding = Resource(i);
    }
  }
  double high = std::max(most, 1.15 * std::sqrt(squares));
  double gap = profile.early     ? card.earlyLaunch
               : profile.follows ? card.launch
                                 : card.graph;
  result.low = most + gap + card.start;
  result.high = high + gap + card.start;
  result.middle = std::sqrt(most * high) + gap + card.start;
  result.floor = std::max({result.busy[size_t(Resource::Dram)],
                           profile.distinctRead / card.l2Bytes,
                           n.matrix * flopOfProduct / card.matrixPeak}) +
                 gap;
  return result;
}
