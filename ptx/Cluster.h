//===- Cluster.h - blocks that run at the same time -----------------------===//
//
// A kernel with .reqnctapercluster has its grid in clusters. Their blocks wait for each other
// at barrier.cluster, and write to each other's shared memory: at addresses that mapa makes,
// in which the bits above an address of the block's own say whose it is.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_CLUSTER_H
#define KVC_PTX_CLUSTER_H

#include "ptx/Block.h"

#include <deque>

namespace kvc::ptx {

/// A launch's grid in clusters. Throws Failure where it has no whole ones.
std::array<uint32_t, 3> clustersOf(const Kernel &kernel,
                                   const LaunchShape &shape);
inline uint32_t blocksOfCluster(const Kernel &kernel) {
  auto [x, y, z] = kernel.cluster;
  return x * y * z;
}

/// The blocks of one: each runs until it waits for the others.
class Cluster {
public:
  /// At a place of clustersOf(). `profiles`: one a block, or none.
  Cluster(const Kernel &kernel, const LaunchShape &shape,
          std::span<const std::byte> parameters, const GlobalView &global,
          std::array<uint32_t, 3> place, uint64_t seed,
          std::span<BlockProfile *const> profiles = {});

  /// To the end of all blocks. Throws Failure with kernel, block and line.
  void run();

  /// Where a block's shared memory begins for the others: `rank` is its number along x, then
  /// y, then z.
  static constexpr uint64_t windowBytes = 1 << 24;
  uint64_t windowOf(uint64_t rank) const;
  /// A store of a block's thread to an address in a window. Throws Failure where there is
  /// none, where its block may not have begun or has ended, and where threads race.
  void store(uint64_t address, uint32_t bytes, const void *value);

private:
  std::deque<Block> blocks;
  std::vector<bool> ended;
  const std::span<BlockProfile *const> profiles;
  std::mt19937_64 random;
  bool shuffled;
};

} // namespace kvc::ptx

#endif // KVC_PTX_CLUSTER_H
