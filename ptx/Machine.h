//===- Machine.h - runs a kernel of a PTX program -------------------------===//

#ifndef KVC_PTX_MACHINE_H
#define KVC_PTX_MACHINE_H

#include "ptx/Block.h"
#include "ptx/GlobalMemory.h"

namespace kvc::ptx {

/// Runs all blocks, those of a cluster at the same time, on `threads` operating-system
/// threads (0: one per core) and returns when done. With a seed other than 0 the warps of a
/// block and the blocks of a cluster run in a shuffled order. `arguments` are the bytes of the kernel's parameters as the
/// PTX lays them out. Throws Failure (KVC_INTERNAL_ERROR) where lanes diverge at
/// an instruction of the whole warp, threads race for shared memory, or an
/// address is outside of what was allocated.
void run(const Kernel &kernel, const LaunchShape &shape,
         std::span<const std::byte> arguments, const GlobalView &memory,
         unsigned threads, uint64_t seed);

} // namespace kvc::ptx

#endif // KVC_PTX_MACHINE_H
