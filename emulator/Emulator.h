//===- Emulator.h - GPU blocks on the CPU ---------------------------------===//
//
// Runs host kernels (kvc/simt.h) block by block. Every GPU thread of a block is
// a fiber with a stack of its own; barriers, shuffles, ballots and matrix
// instructions are points where fibers meet. With a seed the order in which
// warps and lanes run is shuffled, so that a missing barrier shows as another
// result. Block memory starts as NaN. A block in which nobody can go on is
// reported, with the thread and the call it waits in.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EMULATOR_EMULATOR_H
#define KVC_EMULATOR_EMULATOR_H

#include "kvc/simt.h"

#include <array>
#include <cstddef>
#include <string>

namespace kvc::rt {

/// Threads that run together.
constexpr uint32_t warpSize = 32;

struct HostLaunch {
  std::string name;
  kvc_host_kernel entry;
  std::array<uint32_t, 3> grid;
  uint32_t blockSize; // a multiple of 32, at most 1024
  size_t sharedBytes;
};

/// Runs all blocks on `threads` operating-system threads; returns when done.
/// Throws Failure (KVC_INTERNAL_ERROR) if threads diverge at a meeting point.
void emulate(const HostLaunch &launch, const uint64_t *args, unsigned threads,
             uint64_t seed);

} // namespace kvc::rt

#endif // KVC_EMULATOR_EMULATOR_H
