//===- LaunchNumbers.cpp --------------------------------------------------===//

#include "executor/eviction/LaunchNumbers.h"

#include "ptx/profile/Estimate.h"

#include <nlohmann/json.hpp>

using nlohmann::ordered_json;

ordered_json kvc::rt::describeLaunch(const ptx::LaunchProfile &launch,
                                     const ptx::Card &card) {
  using namespace kvc::ptx;
  Estimate e = estimate(launch, card);
  const Counters &n = launch.counters;
  ordered_json instructions, busy;
  for (size_t i = 0; i < unitCount; ++i)
    instructions[unitName(Unit(i))] = n.issues[i];
  for (size_t i = 0; i < resourceCount; ++i)
    busy[resourceName(Resource(i))] = e.busy[i] * 1e6;
  return {{"kernel", launch.kernel},
          {"blocks", launch.blocks},
          {"blocks_run", launch.ran},
          {"threads", launch.threads},
          {"registers", launch.assembled
                            ? ordered_json(launch.assembled->registers)
                            : ordered_json()},
          {"shared_bytes", launch.sharedBytes},
          {"blocks_per_sm", launch.resident},
          {"instructions", instructions},
          {"matrix_products", n.matrix},
          {"special_operations", n.special},
          {"load_requests", n.loadRequests},
          {"load_sectors", n.loadSectors},
          {"load_sectors_ideal", n.loadIdeal},
          {"shared_requests", n.sharedRequests},
          {"shared_passes", n.sharedPasses},
          {"shared_passes_ideal", n.sharedIdeal},
          {"barriers", n.barriers},
          {"longest_path_clocks", launch.longestPath},
          {"l2_bytes", n.l2Bytes},
          {"bulk_bytes", n.bulkBytes},
          {"dram_bytes_read", launch.dramRead},
          {"dram_bytes_written", launch.dramWritten},
          {"busy_us", busy},
          {"low_us", e.low * 1e6},
          {"middle_us", e.middle * 1e6},
          {"high_us", e.high * 1e6},
          {"floor_us", e.floor * 1e6},
          {"bound_by", resourceName(e.binding)}};
}
