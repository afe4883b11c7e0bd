//===- Block.cpp ----------------------------------------------------------===//

#include "ptx/Block.h"

#include "ptx/profile/BlockProfile.h"
#include "runtime/base/Failure.h"

#include <algorithm>
#include <utility>

using namespace kvc::ptx;
using kvc::rt::fail;

Block::Block(const Kernel &kernel, const LaunchShape &shape,
             std::span<const std::byte> parameters, const GlobalView &global,
             std::array<uint32_t, 3> at, uint64_t seed, BlockProfile *profile)
    : kernel(kernel), shape(shape), parameters(parameters), global(global),
      shared(kernel.sharedBytes + shape.sharedBytes), mbarriers(shared),
      profile(profile), at(at), random(seedAt(seed, at)), shuffled(seed != 0) {
  // Else they would be copied, with all of their registers, as the vector grows.
  warps.reserve((shape.block + 31) / 32);
  for (uint32_t first = 0; first < shape.block; first += 32) {
    uint32_t lanes = std::min(32u, shape.block - first);
    warps.emplace_back(*this, kernel, first / 32,
                       lanes == 32 ? ~0u : (1u << lanes) - 1);
  }
  for (Warp &warp : warps)
    ready.push_back(&warp);
}

Lanes Block::special(Special which, int dimension, uint32_t warp) const {
  Lanes lanes;
  for (uint32_t lane = 0; lane < 32; ++lane)
    switch (which) {
    case Special::Tid:
      lanes[lane] = dimension ? 0 : warp * 32 + lane;
      break;
    case Special::Ntid:
      lanes[lane] = dimension ? 1 : shape.block;
      break;
    case Special::Ctaid:
      lanes[lane] = at[dimension];
      break;
    case Special::Nctaid:
      lanes[lane] = shape.grid[dimension];
      break;
    case Special::Lane:
      lanes[lane] = lane;
      break;
    case Special::Warp:
      lanes[lane] = warp;
      break;
    }
  return lanes;
}

std::vector<Warp *> Block::release(std::vector<Warp *> &waiting) {
  std::vector<Warp *> released;
  auto isOf = [](const Warp::Team &team) {
    return [team](const Warp *warp) { return warp->team == team; };
  };
  for (const Warp *first : std::vector(waiting)) {
    const Warp::Team team = first->team;
    auto [number, threads] = team;
    if (!number || std::ranges::count_if(waiting, isOf(team)) < threads / 32)
      continue;
    if (shared.team && shared.team != threads)
      throw fail(KVC_UNSUPPORTED,
                 "kernel '{}', block ({}, {}, {}): between two barriers of the "
                 "block all teams must be of as many threads, got {} and {}",
                 kernel.name, at[0], at[1], at[2], shared.team, threads);
    shared.team = threads;
    for (Warp *warp : waiting)
      if (isOf(team)(warp)) {
        ++warp->teamBarriers;
        released.push_back(warp);
      }
    std::erase_if(waiting, isOf(team));
    if (profile)
      profile->barrier((number - 1) * threads / 32, threads / 32);
  }
  if (!released.empty() || waiting.empty())
    return released;
  size_t forBlock = std::ranges::count_if(waiting, isOf({}));
  if (forBlock < waiting.size())
    throw fail(KVC_INTERNAL_ERROR,
               "kernel '{}', block ({}, {}, {}): of {} warps {} wait for the "
               "block and {} for others of their team",
               kernel.name, at[0], at[1], at[2], warps.size(), forBlock,
               waiting.size() - forBlock);
  if (forBlock < warps.size())
    throw fail(KVC_INTERNAL_ERROR,
               "kernel '{}', block ({}, {}, {}): {} of {} warps wait at a "
               "barrier, the others {}",
               kernel.name, at[0], at[1], at[2], forBlock, warps.size(),
               forCluster.empty() ? "have ended" : "wait for the cluster");
  released.swap(waiting);
  shared.passBarrier();
  for (Warp *warp : released)
    warp->teamBarriers = 0;
  if (profile)
    profile->barrier(0, uint32_t(warps.size()));
  return released;
}

Block::State Block::run() {
  std::vector<Warp *> waiting;
  while (!ready.empty()) {
    if (shuffled)
      std::shuffle(ready.begin(), ready.end(), random);
    std::vector<Warp *> order = std::exchange(ready, {});
    runToBarriers(order, waiting);
    ready = release(waiting);
    if (!ready.empty() || forCluster.empty())
      continue;
    if (forCluster.size() < warps.size())
      throw fail(KVC_INTERNAL_ERROR,
                 "kernel '{}', block ({}, {}, {}): {} of {} warps wait for the "
                 "cluster, the others have ended",
                 kernel.name, at[0], at[1], at[2], forCluster.size(),
                 warps.size());
    ready = std::exchange(forCluster, {});
    for (Warp *warp : ready)
      warp->teamBarriers = 0;
    return State::AtClusterBarrier;
  }
  checkProducts();
  return State::Done;
}

void Block::runToBarriers(std::vector<Warp *> &order,
                          std::vector<Warp *> &waiting) {
  // A profile wants to see warps that read the same lines at about the same
  // time, as on a GPU; results want no order at all.
  const uint64_t turn = profile ? 48 : UINT64_MAX;
  while (!order.empty()) {
    uint64_t before = mbarriers.changes;
    bool allPoll = true;
    std::erase_if(order, [&](Warp *warp) {
      Warp::State state = warp->run(turn);
      allPoll &= state == Warp::State::Polls;
      if (state == Warp::State::AtBarrier)
        waiting.push_back(warp);
      if (state == Warp::State::AtClusterBarrier)
        forCluster.push_back(warp);
      return state != Warp::State::Ready && state != Warp::State::Polls;
    });
    if (allPoll && mbarriers.changes == before)
      throw fail(KVC_INTERNAL_ERROR,
                 "kernel '{}', block ({}, {}, {}): {} of {} warps wait for "
                 "mbarriers for ever, {}",
                 kernel.name, at[0], at[1], at[2], order.size(), warps.size(),
                 mbarriers.lacking());
  }
}

void Block::checkProducts() const {
  for (const Warp &warp : warps)
    if (warp.products.begun != warpgroups.begun(warp.index))
      throw fail(KVC_INTERNAL_ERROR,
                 "kernel '{}', block ({}, {}, {}): the warps of a warpgroup "
                 "must multiply together, warp {} began {} products of {}",
                 kernel.name, at[0], at[1], at[2], warp.index,
                 warp.products.begun, warpgroups.begun(warp.index));
}
