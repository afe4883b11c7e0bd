//===- MeasureAttention.cpp - kvc-run measure-attention -------------------===//

#include "executor/cost/MeasureAttention.h"

#include "executor/cost/Described.h"
#include "executor/cost/Microseconds.h"
#include "executor/io/Safetensors.h"
#include "runtime/attend/DeviceAttend.h"
#include "runtime/base/DType.h"
#include "runtime/base/Format.h"
#include "runtime/device/ViewKernels.h"

#include <algorithm>
#include <iostream>

using namespace kvc::rt;
using nlohmann::ordered_json;

void kvc::rt::measureAttention(const AttentionMeasureOptions &options) {
  if (!options.json.empty())
    checkWritable({options.json});
  CudaTimer timer(0);
  Device &device = ViewKernels::on(KVC_CUDA, 0, options.dtype, options.headDim)
                       .loadedDevice();
  ordered_json results = ordered_json::array();
  for (uint32_t rows : options.rows) {
    // As measure's layers: as many calls as are no cache's.
    constexpr uint64_t cached = 128 << 20;
    uint64_t bytes = uint64_t(options.batch) * options.kvHeads * rows *
                     options.headDim * 2 * dtypeBytes(options.dtype);
    uint64_t count = std::clamp<uint64_t>((cached + bytes - 1) / bytes, 1, 16);
    std::vector<std::unique_ptr<RandomCall>> calls;
    std::vector<CudaTimer::Work> works;
    for (uint64_t i = 0; i < count; ++i) {
      auto &call = *calls.emplace_back(
          std::make_unique<RandomCall>(options, rows, KVC_CUDA, device));
      call.args.stream = timer.stream();
      works.push_back([&call] { attendOnDevice(AttendCall(call.args)); });
    }
    Times graph = Times::of(timer.timeGraphs(works, options.repeats)),
          launches = Times::of(timer.timeLaunches(works, options.repeats));
    const RandomCall &call = *calls.front();
    std::cout << inWords(options, call, rows)
              << formatted("\n  {:.1f} us as a CUDA graph ({:.1f} at p95), "
                           "{:.1f} us as launches, on {}\n",
                           graph.median * 1e6, graph.p95 * 1e6,
                           launches.median * 1e6, timer.deviceName());
    ordered_json numbers = inNumbers(options, call, rows);
    numbers.update({{"device", timer.deviceName()},
                    {"driver", timer.driverVersion()},
                    {"repeats", options.repeats},
                    {"graph_us", microseconds(graph)},
                    {"launched_us", microseconds(launches)}});
    results.push_back(numbers);
  }
  if (!options.json.empty())
    writeFiles({{options.json, {results.dump(1), "\n"}}});
}
