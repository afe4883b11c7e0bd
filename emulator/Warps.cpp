//===- Warps.cpp ----------------------------------------------------------===//

#include "emulator/Warps.h"

#include "emulator/Blocks.h"
#include "emulator/Fiber.h"
#include "emulator/Functions.h"
#include "emulator/Stacks.h"
#include "emulator/WarpProduct.h"
#include "kvc/artifact.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using namespace kvc::rt;

namespace {

/// A kernel's, and what it calls.
constexpr size_t warpStackBytes = KVC_SIMT_WARP_STACK_BYTES + 64 * 1024;

/// One warp. The context comes first: kernels hand its address back.
struct WarpFiber {
  kvc_simt_thread context;
  class WarpBlock *block;
  Fiber fiber;
  bool done = true;
};

class WarpBlock {
public:
  WarpBlock(const HostLaunch &launch, const uint64_t *args)
      : launch(launch), args(args), warps(launch.blockSize / warpSize),
        stacks(stacksFor(warps.size(), warpStackBytes)) {
    shared.reset(static_cast<char *>(
        std::aligned_alloc(128, launch.sharedBytes / 128 * 128 + 256)));
  }

  void run(uint32_t x, uint32_t y, uint32_t z) {
    // All ones is NaN: what is read before it is written shows.
    std::memset(shared.get(), 0xff, launch.sharedBytes);
    size_t alive = warps.size();
    for (size_t i = 0; i < warps.size(); ++i) {
      WarpFiber &warp = warps[i];
      warp.context = {
          uint32_t(i) * warpSize, {x, y, z}, shared.get(), &table()};
      warp.block = this;
      warp.done = false;
      warp.fiber.start(stacks.stack(i), stacks.stackBytes, enter, &warp);
    }
    // A warp comes back at a barrier or at its end, so each round is one barrier.
    while (alive)
      for (WarpFiber &warp : warps)
        if (!warp.done) {
          warp.fiber.resume();
          alive -= warp.done;
        }
  }

private:
  const HostLaunch &launch;
  const uint64_t *args;
  std::vector<WarpFiber> warps;
  const StackPool &stacks;
  struct FreeDeleter {
    void operator()(char *p) const { std::free(p); }
  };
  std::unique_ptr<char, FreeDeleter> shared;

  static void enter(void *argument) {
    WarpFiber &warp = *static_cast<WarpFiber *>(argument);
    warp.block->launch.entry(&warp.context, warp.block->args);
    warp.done = true;
    warp.fiber.leave(/*forGood=*/true);
  }

  static const kvc_simt_ops &table() {
    static const kvc_simt_ops ops = {
        [](kvc_simt_thread *context) {
          reinterpret_cast<WarpFiber *>(context)->fiber.leave(
              /*forGood=*/false);
        },
        nullptr,
        nullptr,
        nullptr,
        nullptr,
        nullptr,
        exp2OfGPU,
        log2OfGPU,
        widenLeft,
        widenRight,
        multiplyWide};
    return ops;
  }
};

} // namespace

void kvc::rt::runWarps(const HostLaunch &launch, const uint64_t *args,
                       unsigned threads) {
  runBlocks(launch.grid, threads, [&]() -> RunBlock {
    auto block = std::make_shared<WarpBlock>(launch, args);
    return [block](uint32_t x, uint32_t y, uint32_t z) { block->run(x, y, z); };
  });
}

bool kvc::rt::hasProcessor(uint64_t processor) {
#if defined(__x86_64__)
  bool third = __builtin_cpu_supports("avx2") &&
               __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("bmi2");
  bool fourth = third && __builtin_cpu_supports("avx512f") &&
                __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512cd") &&
                __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl");
#else
  bool third = false, fourth = false;
#endif
  switch (processor) {
  case KVC_ANY_PROCESSOR:
    return true;
  case KVC_X86_64_V3:
    return third;
  case KVC_X86_64_V4:
    return fourth;
  }
  return false; // of a newer compiler
}
