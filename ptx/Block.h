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
class Cluster;
class GlobalView;

struct LaunchShape {
  std::array<uint32_t, 3> grid;
  uint32_t block;           // threads
  bool follows = false;     // another of the same call (Launch::front)
  uint32_t sharedBytes = 0; // beside the kernel's own
};

/// Of what runs at a place of the grid.
inline uint64_t seedAt(uint64_t seed, std::array<uint32_t, 3> at) {
  return seed + at[0] + 65537ull * at[1] + 4294967311ull * at[2];
}

class Block {
public:
  /// `profile`, where there is one, watches.
  Block(const Kernel &kernel, const LaunchShape &shape,
        std::span<const std::byte> parameters, const GlobalView &global,
        std::array<uint32_t, 3> at, uint64_t seed,
        BlockProfile *profile = nullptr);

  enum class State { AtClusterBarrier, Done };
  /// To the end of all warps, or until they wait for the cluster; goes on from there. Throws
  /// Failure with kernel, block and line.
  State run();

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
  Cluster *cluster = nullptr; // that it is of

private:
  /// Takes out of `waiting` the warps of teams that wait together, or all where they wait
  /// for the block.
  std::vector<Warp *> release(std::vector<Warp *> &waiting);
  /// Runs them until each waits for a barrier, or ends.
  void runToBarriers(std::vector<Warp *> &order, std::vector<Warp *> &waiting);
  void checkProducts() const;

  std::vector<Warp> warps;
  std::vector<Warp *> ready; // behind a barrier, or before their first step
  std::vector<Warp *> forCluster; // that wait for it
  std::mt19937_64 random;
  bool shuffled;
};

} // namespace kvc::ptx

#endif // KVC_PTX_BLOCK_H
