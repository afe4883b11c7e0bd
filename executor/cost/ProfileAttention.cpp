//===- ProfileAttention.cpp - kvc-run profile-attention -------------------===//

#include "executor/cost/ProfileAttention.h"

#include "executor/eviction/LaunchNumbers.h"
#include "executor/cost/Described.h"
#include "executor/io/Safetensors.h"
#include "kvc/ptx.h"
#include "ptx/PTXDevice.h"
#include "ptx/profile/Report.h"
#include "runtime/attend/DeviceAttend.h"
#include "runtime/device/ViewKernels.h"

#include <nlohmann/json.hpp>

#include <iostream>

using namespace kvc::rt;
using nlohmann::ordered_json;

/// The later a block's queries, the more keys it sees: as many blocks of every head, in
/// the middle of equal parts, or the mean of those that run is not that of all.
static uint32_t sampleOf(const AttentionProfileOptions &options) {
  uint32_t heads = options.batch * options.kvHeads;
  constexpr uint32_t most = 64; // more of them is a sample of its own
  bool grows = options.queries != 1;
  return grows && heads <= most ? (options.blocks + heads - 1) / heads * heads
                                : options.blocks;
}

void kvc::rt::profileAttention(const AttentionProfileOptions &options) {
  if (!options.json.empty())
    checkWritable({options.json});
  kvc_enable_ptx();
  ordered_json profiles = ordered_json::array();
  Device &device = ViewKernels::on(KVC_PTX, 0, options.dtype, options.headDim)
                       .loadedDevice();
  for (uint32_t rows : options.rows) {
    auto profiler = ptx::watchLaunches(device, options.card, sampleOf(options));
    RandomCall call(options, rows, KVC_PTX, device);
    attendOnDevice(AttendCall(call.args));
    std::cout << inWords(options, call, rows) << "\n"
              << ptx::report(profiler->launches(), profiler->card());
    ordered_json launches = ordered_json::array();
    for (const ptx::LaunchProfile &launch : profiler->launches())
      launches.push_back(describeLaunch(launch, profiler->card()));
    ordered_json numbers = inNumbers(options, call, rows);
    numbers["card"] = options.card;
    numbers["launches"] = launches;
    profiles.push_back(numbers);
    static_cast<ptx::PTXDevice &>(device).watch(nullptr);
  }
  if (!options.json.empty())
    writeFiles({{options.json, {profiles.dump(1), "\n"}}});
}
