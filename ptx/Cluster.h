//===- Cluster.h - blocks that run at the same time -----------------------===//

#ifndef KVC_PTX_CLUSTER_H
#define KVC_PTX_CLUSTER_H

#include "ptx/Block.h"

#include <deque>

namespace kvc::ptx {

/// The blocks of a launch from one place on along x, as many as its shape has in a
/// cluster: each runs until it waits for the others.
class Cluster {
public:
  /// The `number`-th along x. `profiles`: one a block, or none.
  Cluster(const Kernel &kernel, const LaunchShape &shape,
          std::span<const std::byte> parameters, const GlobalView &global,
          std::array<uint32_t, 3> number, uint64_t seed,
          std::span<BlockProfile *const> profiles = {});

  /// To the end of all blocks. Throws Failure with kernel, block and line.
  void run();

private:
  std::deque<Block> blocks;
  const std::span<BlockProfile *const> profiles;
  std::mt19937_64 random;
  bool shuffled;
};

} // namespace kvc::ptx

#endif // KVC_PTX_CLUSTER_H
