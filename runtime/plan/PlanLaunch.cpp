//===- PlanLaunch.cpp - the launches of a call, in order ------------------===//

#include "runtime/plan/Plan.h"

#include "runtime/base/Boundary.h"

#include <algorithm>
#include <array>
#include <span>

using namespace kvc::rt;

using Grid = std::array<uint32_t, 3>;

static Grid gridOf(const KernelSpec &kernel, const Symbols &sizes) {
  Grid grid;
  for (size_t axis = 0; axis < 3; ++axis) {
    uint64_t extent = kernel.grid[axis].evaluate(sizes);
    if (extent == 0 || extent > (axis ? 65535u : 0x7fffffffu))
      throw fail(KVC_EXCEEDS_LIMITS, "grid of {} must fit, got '{}' = {}",
                 kernel.name, kernel.grid[axis].text(), extent);
    grid[axis] = uint32_t(extent);
  }
  return grid;
}

/// Of a launch in which all blocks of a head are a cluster: what one kernel does with few
/// blocks is not disturbed by more.
static Grid gridOf(std::span<const KernelSpec> kernels, const Symbols &sizes) {
  Grid grid = gridOf(kernels.front(), sizes);
  for (const KernelSpec &kernel : kernels.subspan(1))
    grid[0] = std::max(grid[0], gridOf(kernel, sizes)[0]);
  return grid;
}

void kvc_plan::launch(const kvc_layer_args &args, const ArgumentValues &values,
                      Phase first, Phase last, void *stream) const {
  Symbols sizes =
      symbols(args.batch, args.tokens, args.q_rows, args.index_capacity);
  bool moved = values[size_t(Argument::moves)];
  auto isNeeded = [&](const KernelSpec &kernel) {
    return first <= kernel.phase && kernel.phase <= last &&
           !(kernel.skippedWithLse && args.lse) &&
           !(kernel.phase == Phase::Compact && moved);
  };
  // All or nothing: what does not fit is found before the first launch.
  for (const KernelSpec &kernel : variant->kernels) {
    if (!isNeeded(kernel))
      continue;
    gridOf(kernel, sizes);
    for (Slot slot : kernel.slots)
      if (!slot.scratch)
        checkArgument(Argument(slot.index), values[slot.index]);
  }
  auto scratch = [&](const Place &place) {
    bool apart = args.prepared && place.prepared;
    return reinterpret_cast<uint64_t>(apart ? args.prepared : args.workspace) +
           (apart ? *place.prepared : place.offset);
  };
  bool follows = false;
  auto send = [&](Launch launch, const std::vector<Slot> &of) {
    std::array<uint64_t, KVC_MAX_KERNEL_ARGUMENTS> slots;
    for (size_t s = 0; s < of.size(); ++s)
      slots[s] =
          of[s].scratch ? scratch(places[of[s].index]) : values[of[s].index];
    launch.args = {slots.data(), of.size()};
    launch.follows = follows;
    module.device->launch(launch, stream);
    follows = true;
  };
  /// Whether one launch did the work of the cluster's kernels.
  auto sendTogether = [&](const ClusterSpec &cluster) {
    std::span kernels(&variant->kernels[cluster.first],
                      &variant->kernels[cluster.last] + 1);
    if (!std::ranges::all_of(kernels, isNeeded))
      return false;
    auto number = uint32_t(&cluster - variant->clusters.data());
    Grid grid = gridOf(kernels, sizes);
    Launch launch{firstCluster + number, grid, kernels.front().block, {}};
    launch.cluster = grid[0];
    if (!module.device->hasClusters(launch))
      return false;
    send(launch, cluster.slots);
    return true;
  };
  for (size_t i = 0; i < variant->kernels.size(); ++i) {
    const KernelSpec &kernel = variant->kernels[i];
    if (!isNeeded(kernel))
      continue;
    auto cluster = std::ranges::find(variant->clusters, i, &ClusterSpec::first);
    if (cluster != variant->clusters.end() && sendTogether(*cluster))
      i = cluster->last;
    else
      send({firstKernel + uint32_t(i), gridOf(kernel, sizes), kernel.block, {}},
           kernel.slots);
  }
}
