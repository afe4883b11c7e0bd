//===- MeasureLayer.cpp - kvc-run measure ---------------------------------===//

#include "executor/cost/MeasureLayer.h"

#include "executor/cost/Described.h"
#include "executor/cost/Microseconds.h"
#include "executor/eviction/Budget.h"
#include "executor/io/Safetensors.h"
#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "runtime/base/Format.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

using namespace kvc::rt;
using nlohmann::ordered_json;

namespace {

/// A device whose launches are marked while somebody asks for it.
class MarkedDevice : public Device {
public:
  MarkedDevice(std::unique_ptr<Device> device, CudaTimer &timer)
      : device(std::move(device)), timer(timer) {}

  struct Marked {
    uint32_t kernel, block;
    std::array<uint32_t, 3> grid;
  };
  /// Launches in order, a mark behind each; null: they are not marked.
  std::vector<Marked> *marked = nullptr;
  /// Launches of a call may begin while the one in front of them still runs.
  bool early = true;
  /// How many launches of a call are made; those behind them are left out.
  size_t most = SIZE_MAX;

  void launch(const Launch &launch, void *stream) override {
    made = launch.front ? made + 1 : 1;
    if (made > most)
      return;
    Launch given = launch;
    if (!early || marked)
      given.front = nullptr;
    device->launch(given, stream);
    if (!marked)
      return;
    marked->push_back({launch.kernel, launch.block, launch.grid});
    timer.mark();
  }
  void *allocate(size_t bytes) override { return device->allocate(bytes); }
  void release(void *memory) override { device->release(memory); }
  void upload(void *to, const void *from, size_t bytes) override {
    device->upload(to, from, bytes);
  }
  void download(void *to, const void *from, size_t bytes) override {
    device->download(to, from, bytes);
  }
  void clear(void *memory, size_t bytes) override {
    device->clear(memory, bytes);
  }
  void synchronize() override { device->synchronize(); }
  bool onHost() const override { return device->onHost(); }
  bool multipliesByWarpgroups(uint32_t kernel) const override {
    return device->multipliesByWarpgroups(kernel);
  }

private:
  std::unique_ptr<Device> device;
  CudaTimer &timer;
  size_t made = 0; // of the call that is on its way
};

/// A policy's layers of one length.
class MeasuredLayers {
public:
  MeasuredLayers(kvc_module &module, MarkedDevice &device, CudaTimer &timer,
                 const MeasureOptions &options, uint32_t tokens,
                 uint32_t budget)
      : plan(module, limitsOf(module, options, tokens)), device(device),
        timer(timer), repeats(options.repeats) {
    const kvc_plan_options &limits = plan.options;
    constexpr uint64_t cached = 128 << 20; // more than twice an H100's cache
    uint64_t bytes = uint64_t(limits.kv_heads) * tokens * limits.head_dim * 2 *
                     dtypeBytes(limits.dtype);
    uint64_t count = std::clamp<uint64_t>((cached + bytes - 1) / bytes, 1, 16);
    for (uint64_t i = 0; i < count; ++i) {
      auto &layer = *layers.emplace_back(
          std::make_unique<RandomLayer>(plan, options, tokens, budget));
      plan.prepare(layer.args, timer.stream());
      works.push_back([this, &layer] {
        plan.enqueue(layer.args, Phase::Score, Phase::Compact,
                     this->timer.stream());
      });
    }
  }

  const kvc_plan plan;

  /// Throws Failure where a graph keeps other tokens than launches. `early`: MarkedDevice.
  Times asGraph(bool early) {
    // What a run leaves behind for the next one, or in the cache itself, is no fault.
    bool repeatable =
        !(plan.query().inputs & KVC_READS_STATE) && !plan.options.into;
    device.early = false;
    works.front()();
    timer.wait();
    device.early = early;
    std::vector<int32_t> launched = layers.front()->kept();
    Times times = Times::of(timer.timeGraphs(works, repeats));
    device.early = true;
    if (repeatable && layers.front()->kept() != launched)
      throw fail(KVC_INTERNAL_ERROR,
                 "policy '{}' keeps other tokens in a CUDA graph",
                 plan.module.manifest.policy);
    return times;
  }
  /// A graph of the first launches alone: what each adds to those in front of it.
  Times upTo(size_t launches) {
    device.most = launches;
    Times times = Times::of(timer.timeGraphs(works, std::min(repeats, 25u)));
    device.most = SIZE_MAX;
    return times;
  }
  Times asLaunches() { return Times::of(timer.timeLaunches(works, repeats)); }

  struct Timed : MarkedDevice::Marked {
    Times times;
  };
  /// Each launch of a layer, events between them.
  std::vector<Timed> eachLaunch() {
    std::vector<MarkedDevice::Marked> marked;
    std::vector<std::vector<double>> seconds;
    for (uint32_t i = 0; i < repeats; ++i) {
      marked.clear();
      device.marked = &marked;
      timer.mark();
      works[i % works.size()]();
      device.marked = nullptr;
      std::vector<double> run = timer.take();
      seconds.resize(run.size());
      for (size_t j = 0; j < run.size(); ++j)
        seconds[j].push_back(run[j]);
    }
    std::vector<Timed> all;
    for (size_t j = 0; j < seconds.size(); ++j)
      all.push_back({marked[j], Times::of(std::move(seconds[j]))});
    return all;
  }

private:
  MarkedDevice &device;
  CudaTimer &timer;
  const uint32_t repeats;
  std::vector<std::unique_ptr<RandomLayer>> layers;
  std::vector<CudaTimer::Work> works;
};

} // namespace

void kvc::rt::measure(const MeasureOptions &options) {
  Budget budget = Budget::parse(options.budget, options.keep);
  if (!options.json.empty())
    checkWritable({options.json}, {options.policy});
  kvc_target target = {};
  target.struct_size = sizeof target;
  target.kind = KVC_CUDA;
  kvc_module module(options.policy, target);
  CudaTimer timer(target.device);
  auto marked = std::make_unique<MarkedDevice>(std::move(module.device), timer);
  MarkedDevice &device = *marked;
  module.device = std::move(marked);
  std::vector<std::string> kernels = module.manifest.kernelNames();
  ordered_json results = ordered_json::array();
  for (uint32_t tokens : options.tokens) {
    uint32_t kept = budget.of(tokens);
    MeasuredLayers layers(module, device, timer, options, tokens, kept);
    std::cout << inWords(layers.plan, kept) << ", on " << timer.deviceName()
              << "\n";
    Times graph = layers.asGraph(/*early=*/true),
          serial = layers.asGraph(/*early=*/false),
          launches = layers.asLaunches();
    ordered_json each = ordered_json::array();
    for (const MeasuredLayers::Timed &launch : layers.eachLaunch()) {
      const auto &[x, y, z] = launch.grid;
      Times upTo = layers.upTo(each.size() + 1);
      std::cout << formatted(
          "  {}: {} x {} x {} blocks of {} threads: {:.1f} us, {:.1f} us of a "
          "graph that ends with it\n",
          kernels[launch.kernel], x, y, z, launch.block,
          launch.times.median * 1e6, upTo.median * 1e6);
      each.push_back({{"kernel", kernels[launch.kernel]},
                      {"grid", {x, y, z}},
                      {"threads", launch.block},
                      {"us", microseconds(launch.times)},
                      {"graph_to_here_us", microseconds(upTo)}});
    }
    std::cout << formatted(
        "  a layer: {:.1f} us as a CUDA graph ({:.1f} at p95), {:.1f} us as "
        "one whose launches wait for the end of the last, {:.1f} us as "
        "launches\n",
        graph.median * 1e6, graph.p95 * 1e6, serial.median * 1e6,
        launches.median * 1e6);
    ordered_json numbers = inNumbers(layers.plan, kept);
    numbers.update({{"device", timer.deviceName()},
                    {"driver", timer.driverVersion()},
                    {"repeats", options.repeats},
                    {"graph_us", microseconds(graph)},
                    {"serial_graph_us", microseconds(serial)},
                    {"launched_us", microseconds(launches)},
                    {"launches", each}});
    results.push_back(numbers);
  }
  if (!options.json.empty())
    writeFiles({{options.json, {results.dump(1), "\n"}}});
}
