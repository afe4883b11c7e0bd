//===- Block.h - one thread block, and what its warps share ---------------===//

#ifndef KVC_PTX_BLOCK_H
#define KVC_PTX_BLOCK_H

#include "ptx/MBarriers.h"
#include "ptx/Program.h"
#include "ptx/SharedMemory.h"
#include "ptx/Warp.h"

#include <random>

namespace kvc::ptx {

class BlockProfile;
class GlobalView;

struct LaunchShape {
  std::array<uint32_t, 3> grid;
  uint32_t block;           // threads
  bool follows = false;     // another of the same call (Launch::front)
  uint32_t sharedBytes = 0; // beside the kernel's own
};

class Block {
public:
  /// `profile`, where there is one, watches.
  Block(const Kernel &kernel, const LaunchShape &shape,
        std::span<const std::byte> parameters, const GlobalView &global,
        std::array<uint32_t, 3> at, uint64_t seed,
        BlockProfile *profile = nullptr);

  /// To the end of all warps. Throws Failure with kernel, block and line.
  void run();

  /// A special register of a warp.
  Lanes special(Special which, int dimension, uint32_t warp) const;

  const Kernel &kernel;
  const LaunchShape &shape;
  const std::span<const std::byte> parameters;
  const GlobalView &global;
  SharedMemory shared;
  MBarriers mbarriers;
  Warpgroups warpgroups;
  BlockProfile *const profile;
  const std::array<uint32_t, 3> at;

private:
  /// Takes out of `waiting` the warps of teams that wait together, or all where they wait
  /// for the block.
  std::vector<Warp *> release(std::vector<Warp *> &waiting);
  std::vector<Warp> warps;
  std::mt19937_64 random;
  bool shuffled;
};

} // namespace kvc::ptx

#endif // KVC_PTX_BLOCK_H
