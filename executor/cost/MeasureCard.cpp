//===- MeasureCard.cpp - kvc-run measure-card -----------------------------===//
//
// KVC_PTX_DIR is the folder in which the build has put the PTX; without it there is
// none.
//
//===----------------------------------------------------------------------===//

#include "executor/cost/MeasureCard.h"

#include "executor/cost/CudaTimer.h"
#include "executor/cost/kernels/Card.h"
#include "executor/eviction/Arena.h"
#include "executor/io/Safetensors.h"
#include "kvc/artifact.h"
#include "runtime/base/EmbedText.h"
#include "runtime/base/Failure.h"
#include "runtime/base/Format.h"
#include "runtime/device/Targets.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>

using namespace kvc;
using namespace kvc::rt;
using nlohmann::ordered_json;

#ifdef KVC_PTX_DIR
KVC_EMBED_TEXT(kvc_ptx_card, KVC_PTX_DIR "/card.ptx")
static const char *const text = kvc_ptx_card;
#else
static const char *const text = nullptr;
#endif

namespace {

enum Kernel : uint32_t {
  Empty,
  CopyMemory,
  ReadMemory,
  Chase,
  Multiply,
  MultiplyChain,
  LoadRows,
  LoadContiguous,
  LoadMatrices,
  Exponentials,
  Conversions
};
const std::string names[] = {
    "empty",         "copy_memory",    "read_memory", "chase",
    "multiply",      "multiply_chain", "load_rows",   "load_contiguous",
    "load_matrices", "exponentials",   "conversions"};

std::unique_ptr<Device> load(const char *chip, std::string_view ptx,
                             std::span<const std::string> names) {
  kvc_image image = {chip, ptx.data(), ptx.size()};
  kvc_artifact artifact = {};
  artifact.image_count = 1;
  artifact.images = &image;
  kvc_target target = {};
  target.struct_size = sizeof target;
  target.kind = KVC_CUDA;
  return openDevice(artifact, names, target);
}

std::unique_ptr<Device> loadKernels() {
  if (!text)
    throw fail(KVC_UNSUPPORTED,
               "this program was built without kernels for GPUs");
  return load("sm_80", text, names);
}

/// The empty kernel, which waits for launches in front of it: the others are compiled for
/// chips that cannot.
const std::string &waitingKernel() {
  static const std::string ptx = formatted(
      ".version 7.8\n.target sm_90\n.address_size 64\n"
      ".visible .entry empty(.param .align 8 .b8 arguments[{}])\n"
      "{{\ngriddepcontrol.wait;\ngriddepcontrol.launch_dependents;\nret;\n}}\n",
      sizeof(gpu::CardArgs));
  return ptx;
}

class CardMeasurement {
public:
  explicit CardMeasurement(bool small)
      : device(loadKernels()), timer(0), arena(*device), small(small),
        multiprocessors(uint32_t(timer.attribute(cudaMultiprocessors))),
        clock(timer.attribute(cudaClockKilohertz) * 1e3) {}

  ordered_json all() {
    ordered_json found = {{"device", timer.deviceName()},
                          {"driver", timer.driverVersion()},
                          {"multiprocessors", multiprocessors},
                          {"clock_ghz", clock * 1e-9}};
    auto note = [&](const char *name, double value, const char *unit) {
      found[name] = value;
      std::cout << formatted("{}: {:.3f} {}\n", name, value, unit);
    };
    note("copy_tb_s", 1e-12 * copyRate(), "TB/s read and written");
    note("l2_tb_s", 1e-12 * cacheRate(), "TB/s out of L2");
    note("l2_latency_ns", 1e9 * latency(small ? 1 << 16 : 8 << 20), "ns");
    note("dram_latency_ns", 1e9 * latency(small ? 1 << 18 : 512 << 20), "ns");
    note("mma_clocks", clocksOf(Multiply, gpu::independent, 4),
         "clocks of a quarter of an SM for an m16n8k16");
    note("mma_latency_clocks",
         clock * once(MultiplyChain, 1, 1024) / turns(1024), "clocks");
    note("load_rows_clocks", clocksOf(LoadRows, 1, 1),
         "clocks of an SM for 8 rows of 64 bytes in L1");
    note("load_contiguous_clocks", clocksOf(LoadContiguous, 1, 1),
         "clocks of an SM for 512 bytes in L1");
    note("load_matrices_clocks", clocksOf(LoadMatrices, 1, 1),
         "clocks of an SM for ldmatrix.x4");
    note("exp2_clocks", clocksOf(Exponentials, gpu::independent, 4),
         "clocks of a quarter of an SM for 32 of exp2, and an addition");
    note("pack_clocks", clocksOf(Conversions, gpu::independent, 4),
         "clocks of a quarter of an SM for 32 pairs to bf16");
    note("graph_us", 1e6 * graphOf(*device, 1, /*early=*/false),
         "us of a CUDA graph of one empty kernel");
    note("launch_gap_us", 1e6 * launchGap(*device, /*early=*/false),
         "us from launch to launch in a CUDA graph");
    if (timer.attribute(cudaMajor) >= 9)
      note("early_launch_gap_us",
           1e6 * launchGap(*load("sm_90", waitingKernel(), {names, 1}),
                           /*early=*/true),
           "us where the kernel waits itself and may begin early");
    return found;
  }

private:
  std::unique_ptr<Device> device;
  CudaTimer timer;
  Arena arena;
  const bool small;
  const uint32_t multiprocessors;
  const double clock; // the highest, in Hz

  uint32_t turns(uint32_t repeats) const { return small ? 4 : repeats; }

  void launch(Kernel kernel, uint32_t blocks, uint32_t threads,
              const gpu::CardArgs &args) {
    launchOn(*device, {kernel, {blocks, 1, 1}, threads, {}}, args);
  }
  void launchOn(Device &device, Launch launch, const gpu::CardArgs &args) {
    uint64_t slots[(sizeof args + 7) / 8] = {};
    std::memcpy(slots, &args, sizeof args);
    launch.args = slots;
    device.launch(launch, timer.stream());
  }
  double seconds(const CudaTimer::Work &work) {
    return Times::of(timer.timeLaunches({work}, small ? 2 : 20)).median;
  }
  /// Numbers that are none of the special ones; equal ones would be moved faster.
  static std::vector<uint16_t> numbers(size_t bytes) {
    std::vector<uint16_t> halves(bytes / 2);
    std::minstd_rand random(1);
    for (uint16_t &half : halves)
      half = uint16_t(0x3c00 | (random() >> 8 & 0x83ff));
    return halves;
  }

  double copyRate() {
    uint64_t bytes = small ? 1 << 16 : 512 << 20;
    Arena own(*device);
    void *from = own.upload(numbers(bytes));
    auto *to = own.fresh<std::byte>(bytes);
    uint32_t blocks = multiprocessors * 16;
    return 2 * bytes / seconds([&] {
             launch(CopyMemory, blocks, gpu::cardThreads,
                    {from, to, bytes / sizeof(gpu::Piece), blocks, 1});
           });
  }

  double cacheRate() {
    uint64_t bytes = small ? 1 << 16 : 16 << 20;
    uint32_t blocks = multiprocessors * 8, repeats = turns(64);
    void *from = arena.upload(numbers(bytes)), *to = words(blocks);
    return double(bytes) * repeats / seconds([&] {
             launch(ReadMemory, blocks, gpu::cardThreads,
                    {from, to, bytes / sizeof(gpu::Piece), blocks, repeats});
           });
  }

  /// Of loads that wait for each other, all over `bytes`.
  double latency(uint64_t bytes) {
    constexpr uint32_t step = 256 / sizeof(gpu::Piece); // no two in a line
    uint32_t places = uint32_t(bytes / 256), repeats = turns(20000);
    std::vector<uint32_t> order(places);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin() + 1, order.end(), std::minstd_rand(1));
    std::vector<gpu::Piece> ring(size_t(places) * step);
    for (uint32_t i = 0; i < places; ++i)
      ring[size_t(order[i]) * step][0] = order[(i + 1) % places] * step;
    Arena own(*device);
    auto *from = own.upload(ring);
    auto *to = own.zeros<uint32_t>(1);
    return seconds([&] {
             launch(Chase, 1, 32, {from, to, ring.size(), 1, repeats});
           }) /
           repeats;
  }

  uint32_t *words(uint32_t blocks) {
    return arena.fresh<uint32_t>(size_t(blocks) * gpu::cardThreads);
  }
  double once(Kernel kernel, uint32_t blocks, uint32_t repeats) {
    void *from = arena.upload(numbers(1 << 14)), *to = words(blocks);
    return seconds([&] {
      launch(kernel, blocks, gpu::cardThreads,
             {from, to, 0, blocks, turns(repeats)});
    });
  }
  /// Of one of a warp's operations, `each` a turn, where `parts` of an SM work at once:
  /// as many warps as fit, so that none is waited for.
  double clocksOf(Kernel kernel, uint32_t each, uint32_t parts) {
    constexpr uint32_t blocksPerMultiprocessor = 4, repeats = 2048;
    uint32_t blocks = multiprocessors * blocksPerMultiprocessor;
    double warps =
        blocksPerMultiprocessor * double(gpu::cardThreads / 32) / parts;
    return clock * once(kernel, blocks, repeats) /
           (warps * each * turns(repeats));
  }

  /// Seconds of a graph of empty kernels.
  double graphOf(Device &device, uint32_t launches, bool early) {
    CudaTimer::Work work = [&] {
      const Launch empty = {Empty, {1, 1, 1}, 32, {}};
      for (uint32_t i = 0; i < launches; ++i) {
        Launch next = empty;
        next.front = early && i ? &empty : nullptr;
        launchOn(device, next, {});
      }
    };
    return Times::of(timer.timeGraphs({work}, small ? 2 : 20)).median;
  }
  /// Two graphs, so that what a graph takes to begin is not counted.
  double launchGap(Device &device, bool early) {
    constexpr uint32_t few = 16, many = 144;
    return (graphOf(device, many, early) - graphOf(device, few, early)) /
           (many - few);
  }
};

} // namespace

void kvc::rt::measureCard(const CardMeasureOptions &options) {
  if (!options.json.empty())
    checkWritable({options.json});
  ordered_json found = {CardMeasurement(options.small).all()};
  if (!options.json.empty())
    writeFiles({{options.json, {found.dump(1), "\n"}}});
}
