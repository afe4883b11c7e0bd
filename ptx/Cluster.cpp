//===- Cluster.cpp --------------------------------------------------------===//

#include "ptx/Cluster.h"

#include "ptx/profile/BlockProfile.h"
#include "runtime/base/Failure.h"

#include <algorithm>
#include <numeric>

using namespace kvc::ptx;
using kvc::rt::fail;

Cluster::Cluster(const Kernel &kernel, const LaunchShape &shape,
                 std::span<const std::byte> parameters,
                 const GlobalView &global, std::array<uint32_t, 3> number,
                 uint64_t seed, std::span<BlockProfile *const> profiles)
    : profiles(profiles), random(seedAt(seed, number)), shuffled(seed != 0) {
  auto [x, y, z] = number;
  for (uint32_t i = 0; i < shape.cluster; ++i)
    blocks.emplace_back(kernel, shape, parameters, global,
                        std::array{x * shape.cluster + i, y, z}, seed,
                        profiles.empty() ? nullptr : profiles[i]);
}

void Cluster::run() {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  while (true) {
    if (shuffled)
      std::shuffle(order.begin(), order.end(), random);
    size_t waiting = 0;
    for (size_t i : order)
      waiting += blocks[i].run() == Block::State::AtClusterBarrier;
    if (!waiting)
      return;
    if (waiting != blocks.size()) {
      auto [x, y, z] = blocks.front().at;
      throw fail(KVC_INTERNAL_ERROR,
                 "kernel '{}', cluster from block ({}, {}, {}) on: {} of {} "
                 "blocks wait for the cluster, the others have ended",
                 blocks.front().kernel.name, x, y, z, waiting, blocks.size());
    }
    double latest = 0;
    for (BlockProfile *profile : profiles)
      latest = std::max(latest, profile->latest());
    for (BlockProfile *profile : profiles)
      profile->clusterBarrier(latest);
  }
}
