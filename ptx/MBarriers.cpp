//===- MBarriers.cpp ------------------------------------------------------===//

#include "ptx/MBarriers.h"

#include "runtime/base/Failure.h"

using namespace kvc::ptx;
using kvc::rt::fail;
using kvc::rt::formatted;

void MBarriers::make(uint64_t address, uint64_t arrivals, Access access) {
  constexpr uint64_t most = (1 << 20) - 1; // PTX ISA, "mbarrier.init"
  if (!arrivals || arrivals > most)
    throw fail(KVC_INTERNAL_ERROR,
               "an mbarrier must be made for 1 to {} arrivals, got {}", most,
               arrivals);
  if (barriers.count(address))
    throw fail(KVC_INTERNAL_ERROR, "an mbarrier is there already, at {}",
               address);
  shared.write(address, sizeof arrivals, &arrivals, access);
  barriers[address] = {
      .arrivals = arrivals, .missing = arrivals, .now = shared.newArrival()};
}

MBarriers::Barrier &MBarriers::at(uint64_t address, Access access) {
  auto found = barriers.find(address);
  if (found == barriers.end())
    throw fail(KVC_INTERNAL_ERROR, "there is no mbarrier at {}", address);
  shared.sync(address, sizeof(uint64_t), access);
  return found->second;
}

void MBarriers::endPhase(Barrier &barrier) {
  ++changes;
  if (barrier.missing || barrier.bytes)
    return;
  ++barrier.over;
  barrier.missing = barrier.arrivals;
  barrier.last = barrier.now;
  barrier.now = shared.newArrival();
  barrier.waited = false;
}

void MBarriers::arrive(uint64_t address, uint64_t bytes, Access access) {
  Barrier &barrier = at(address, access);
  if (!barrier.missing)
    throw fail(KVC_INTERNAL_ERROR,
               "the mbarrier at {} must have {} arrivals in a phase, got one "
               "more while {} bytes are still to come",
               address, barrier.arrivals, barrier.bytes);
  --barrier.missing;
  barrier.bytes += int64_t(bytes);
  endPhase(barrier);
}

bool MBarriers::over(uint64_t address, uint64_t parity, Access access) {
  Barrier &barrier = at(address, access);
  if (parity > 1)
    throw fail(KVC_INTERNAL_ERROR, "a phase's parity must be 0 or 1, got {}",
               parity);
  if (barrier.over % 2 == parity) {
    barrier.waited = true;
    return false;
  }
  if (barrier.last)
    shared.saw(barrier.last, access);
  return true;
}

uint32_t MBarriers::phaseFor(uint64_t address, Access access) {
  Barrier &barrier = at(address, access);
  shared.checkFenced(address, sizeof(uint64_t), access);
  return barrier.now;
}

void MBarriers::landed(uint64_t address, uint64_t bytes) {
  Barrier &barrier = barriers.at(address);
  barrier.bytes -= int64_t(bytes);
  endPhase(barrier);
}

std::string MBarriers::lacking() const {
  std::string text;
  for (const auto &[address, barrier] : barriers)
    if (barrier.waited)
      text += formatted("{}that at {} lacks {} arrivals and {} bytes",
                        text.empty() ? "" : ", ", address, barrier.missing,
                        barrier.bytes);
  return text;
}
