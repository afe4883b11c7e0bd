//===- Cluster.cpp --------------------------------------------------------===//

#include "ptx/Cluster.h"

#include "ptx/Lanewise.h"
#include "ptx/Opcodes.h"
#include "ptx/Types.h"
#include "ptx/profile/BlockProfile.h"
#include "runtime/base/Failure.h"

#include <algorithm>
#include <numeric>

using namespace kvc::ptx;
using kvc::rt::fail;

std::array<uint32_t, 3> kvc::ptx::clustersOf(const Kernel &kernel,
                                             const LaunchShape &shape) {
  std::array<uint32_t, 3> clusters = shape.grid;
  for (size_t i = 0; i < clusters.size(); ++i) {
    if (clusters[i] % kernel.cluster[i])
      throw fail(KVC_INTERNAL_ERROR,
                 "kernel '{}' has clusters of {} x {} x {} blocks, which must "
                 "divide the grid, got {} x {} x {}",
                 kernel.name, kernel.cluster[0], kernel.cluster[1],
                 kernel.cluster[2], shape.grid[0], shape.grid[1],
                 shape.grid[2]);
    clusters[i] /= kernel.cluster[i];
  }
  return clusters;
}

Cluster::Cluster(const Kernel &kernel, const LaunchShape &shape,
                 std::span<const std::byte> parameters,
                 const GlobalView &global, std::array<uint32_t, 3> place,
                 uint64_t seed, std::span<BlockProfile *const> profiles)
    : ended(blocksOfCluster(kernel)), profiles(profiles),
      random(seedAt(seed, place)), shuffled(seed != 0) {
  auto [sizeX, sizeY, sizeZ] = kernel.cluster;
  for (uint32_t i = 0; i < ended.size(); ++i) {
    std::array at = {place[0] * sizeX + i % sizeX,
                     place[1] * sizeY + i / sizeX % sizeY,
                     place[2] * sizeZ + i / sizeX / sizeY};
    blocks
        .emplace_back(kernel, shape, parameters, global, at, seed,
                      profiles.empty() ? nullptr : profiles[i])
        .cluster = this;
  }
}

void Cluster::run() {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  while (true) {
    if (shuffled)
      std::shuffle(order.begin(), order.end(), random);
    size_t waiting = 0;
    for (size_t i : order) {
      ended[i] = blocks[i].run() == Block::State::Done;
      waiting += !ended[i];
    }
    if (!waiting)
      return;
    if (waiting != blocks.size()) {
      auto [x, y, z] = blocks.front().at;
      throw fail(KVC_INTERNAL_ERROR,
                 "kernel '{}', cluster from block ({}, {}, {}) on: {} of {} "
                 "blocks wait for the cluster, the others have ended",
                 blocks.front().kernel.name, x, y, z, waiting, blocks.size());
    }
    for (Block &block : blocks)
      block.shared.passClusterBarrier();
    double latest = 0;
    for (BlockProfile *profile : profiles)
      latest = std::max(latest, profile->latest());
    for (BlockProfile *profile : profiles)
      profile->clusterBarrier(latest);
  }
}

uint64_t Cluster::windowOf(uint64_t rank) const {
  if (rank >= blocks.size())
    throw fail(KVC_INTERNAL_ERROR,
               "a block of the cluster must be below {}, got {}", blocks.size(),
               rank);
  return (rank + 1) * windowBytes;
}

void Cluster::store(uint64_t address, uint32_t bytes, const void *value) {
  uint64_t window = address / windowBytes;
  if (window == 0 || window > blocks.size())
    throw fail(KVC_INTERNAL_ERROR,
               "a shared address of the cluster must be made by mapa, got {}",
               address);
  if (ended[window - 1])
    throw fail(KVC_INTERNAL_ERROR,
               "block {} of the cluster has ended, and its shared memory with "
               "it",
               window - 1);
  blocks[window - 1].shared.writeFromOutside(address % windowBytes, bytes,
                                             value);
}

/// What a block has done before is done: global memory is the same for all of them.
static void arriveAtCluster(Warp &warp, const Instruction &, uint32_t) {
  if (warp.arrived)
    throw fail(KVC_INTERNAL_ERROR,
               "a warp must wait for its cluster before it arrives again");
  warp.arrived = true;
}

static void waitForCluster(Warp &warp, const Instruction &, uint32_t) {
  if (!warp.arrived)
    throw fail(KVC_INTERNAL_ERROR,
               "a warp must arrive before it waits for its cluster");
  warp.arrived = false;
}

/// barrier.cluster.arrive and .wait: as they are where nothing is said of memory, or what
/// that means (release, acquire). Not .relaxed, which orders nothing.
static std::optional<Opcode> findClusterBarrier(Parts parts) {
  bool arrives = parts[2] == "arrive", waits = parts[2] == "wait";
  for (std::string_view part : parts.subspan(3))
    if (part != "aligned" && part != (arrives ? "release" : "acquire"))
      return std::nullopt;
  if (arrives)
    return Opcode{{arriveAtCluster, 0}, 0, Flow::Warp};
  if (waits)
    return Opcode{{waitForCluster, 0}, 0, Flow::ClusterBarrier};
  return std::nullopt;
}

/// An address of the block's own shared memory, in another block's.
static void mapAddress(Warp &warp, const Instruction &op, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    uint64_t address = warp[op.operands[0]][lane];
    uint64_t rank = uint32_t(warp[op.operands[1]][lane]);
    if (address >= Cluster::windowBytes)
      throw fail(KVC_INTERNAL_ERROR,
                 "mapa takes an address of the block's own shared memory, got "
                 "{}",
                 address);
    warp.row(op.results[0])[lane] =
        warp.block.cluster->windowOf(rank) + address;
  });
}

template <typename T>
static void storeInCluster(Warp &warp, const Instruction &op, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    T value = valueOf<T>(warp[op.operands[1]][lane]);
    accessOf(warp, lane); // between which barriers
    warp.block.cluster->store(addressOf(warp, op.operands[0], lane), sizeof(T),
                              &value);
  });
}

std::optional<Opcode> kvc::ptx::findCluster(Parts parts) {
  if (parts.size() > 2 && parts[0] == "barrier" && parts[1] == "cluster")
    return findClusterBarrier(parts);
  if (parts.size() != 3 || parts[1] != "shared::cluster")
    return std::nullopt;
  if (parts[0] == "mapa" && (parts[2] == "u32" || parts[2] == "u64"))
    return Opcode{{mapAddress, 2}, 1};
  if (parts[0] == "st" && parts[2] == "b32")
    return Opcode{{storeInCluster<uint32_t>, 2}, 0};
  return std::nullopt;
}
