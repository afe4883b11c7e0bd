//===- MBarriers.h - barriers in shared memory that copies arrive at ------===//
//
// mbarrier of PTX. Each has phases: one is over when as many arrivals have come as the barrier
// was made for, and as many bytes of bulk copies as these expected. Who waits for a phase says
// whether its number is even or odd.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_MBARRIERS_H
#define KVC_PTX_MBARRIERS_H

#include "ptx/SharedMemory.h"

#include <map>
#include <string>

namespace kvc::ptx {

/// Those of a block. Each function throws Failure where there is no barrier at an address, or
/// where the thread that made it races.
class MBarriers {
public:
  explicit MBarriers(SharedMemory &shared) : shared(shared) {}

  void make(uint64_t address, uint64_t arrivals, Access access);
  /// One arrival, and so many bytes more to come.
  void arrive(uint64_t address, uint64_t bytes, Access access);
  /// True if the phase of a parity is over, which the thread has seen then.
  bool over(uint64_t address, uint64_t parity, Access access);
  /// For a copy that arrives there: its phase, as SharedMemory::bring has it.
  uint32_t phaseFor(uint64_t address, Access access);
  void landed(uint64_t address, uint64_t bytes);

  /// Counts what has changed: who waits in vain while it stays waits for ever.
  uint64_t changes = 0;
  /// What phases that somebody waited for lack.
  std::string lacking() const;

private:
  struct Barrier {
    uint64_t arrivals = 0, missing = 0;
    int64_t bytes = 0;          // still to come
    uint64_t over = 0;          // phases
    uint32_t now = 0, last = 0; // arrivals of SharedMemory
    bool waited = false;        // for the phase that runs
  };
  Barrier &at(uint64_t address, Access access);
  void endPhase(Barrier &barrier);

  SharedMemory &shared;
  std::map<uint64_t, Barrier> barriers;
};

} // namespace kvc::ptx

#endif // KVC_PTX_MBARRIERS_H
