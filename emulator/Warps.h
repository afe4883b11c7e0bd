//===- Warps.h - blocks on the CPU, a warp at a time -----------------------===//
//
// Runs the form of a host kernel in which one call is a warp (kvc/simt.h). Warps of a
// block run one after another; each is a fiber, which leaves where it waits at a barrier.
// Results are those of Emulator.h, in whatever order threads run there.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EMULATOR_WARPS_H
#define KVC_EMULATOR_WARPS_H

#include "emulator/Emulator.h"

namespace kvc::rt {

/// Runs all blocks on `threads` operating-system threads; returns when done.
/// `launch.entry` is a warp's.
void runWarps(const HostLaunch &launch, const uint64_t *args, unsigned threads);

/// True where this processor has what `processor` (kvc_host_processor) asks for.
bool hasProcessor(uint64_t processor);

} // namespace kvc::rt

#endif // KVC_EMULATOR_WARPS_H
