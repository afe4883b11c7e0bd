//===- Emulator.cpp - GPU blocks on the CPU -------------------------------===//

#include "emulator/Emulator.h"

#include "emulator/Blocks.h"
#include "emulator/Fiber.h"
#include "emulator/Functions.h"
#include "emulator/Mma.h"
#include "emulator/Stacks.h"
#include "emulator/WarpProduct.h"
#include "runtime/base/Failure.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

using namespace kvc::rt;

namespace {

/// A kernel's, and what it calls of the emulation and the mathematical library.
constexpr size_t stackBytes = KVC_SIMT_STACK_BYTES + 32 * 1024;

/// Where a thread waits. The names are for the report of a divergence.
enum class Call { None, Barrier, SyncWarp, ShuffleXor, ShuffleUp, Ballot, Mma };
const char *const callNames[] = {"nothing",     "barrier",    "sync_warp",
                                 "shuffle_xor", "shuffle_up", "ballot",
                                 "mma"};

struct Thread;

struct Warp {
  std::array<Thread *, warpSize> lanes;
  uint32_t arrived = 0;
};

/// One GPU thread. The context comes first: kernels hand its address back.
struct Thread {
  kvc_simt_thread context;
  class BlockRunner *runner;
  Warp *warp;
  Fiber fiber;
  bool done = true, runnable = false;
  Call call = Call::None;
  // Operands and result of the call it waits in.
  uint32_t value = 0, operand = 0, result = 0;
  const uint32_t *a = nullptr, *b = nullptr;
  float *c = nullptr;
};

class BlockRunner {
public:
  BlockRunner(const HostLaunch &launch, const uint64_t *args, uint64_t seed)
      : launch(launch), args(args), seed(seed),
        pool(stacksFor(launch.blockSize, stackBytes)),
        threads(launch.blockSize), warps(launch.blockSize / warpSize),
        warpOrder(warps.size()) {
    shared.reset(static_cast<char *>(
        std::aligned_alloc(128, (launch.sharedBytes + 127) / 128 * 128 + 128)));
    for (uint32_t i = 0; i < launch.blockSize; ++i) {
      threads[i].runner = this;
      threads[i].warp = &warps[i / warpSize];
      warps[i / warpSize].lanes[i % warpSize] = &threads[i];
    }
    for (size_t i = 0; i < warps.size(); ++i)
      warpOrder[i] = i;
    for (uint32_t i = 0; i < warpSize; ++i)
      laneOrder[i] = i;
  }

  void run(uint32_t x, uint32_t y, uint32_t z) {
    // All ones is NaN: what is read before it is written shows.
    std::memset(shared.get(), 0xff, launch.sharedBytes);
    alive = launch.blockSize;
    atBarrier = 0;
    for (uint32_t i = 0; i < launch.blockSize; ++i)
      start(threads[i], i, x, y, z);
    if (seed)
      random.seed(seed ^ (uint64_t(z) << 42 ^ uint64_t(y) << 21 ^ x));
    while (alive) {
      bool progress = false;
      if (seed)
        std::shuffle(warpOrder.begin(), warpOrder.end(), random);
      for (size_t w : warpOrder)
        while (runLanes(warps[w]))
          progress = true;
      if (alive && !progress)
        throw divergence();
    }
  }

  /// Called by a fiber: waits until all lanes of its warp have made `call`.
  void meetWarp(Thread &thread, Call call) {
    thread.call = call;
    Warp &warp = *thread.warp;
    if (++warp.arrived < warpSize) {
      wait(thread);
      return;
    }
    warp.arrived = 0;
    for (Thread *lane : warp.lanes)
      if (lane->call != call) {
        mismatch.emplace(fail(
            KVC_INTERNAL_ERROR,
            "kernel {}: lanes of one warp diverge: thread {} is in {}, thread "
            "{} in {}",
            launch.name, thread.context.thread, callNames[size_t(call)],
            lane->context.thread, callNames[size_t(lane->call)]));
        wait(thread); // for good: the runner reports and stops
      }
    perform(warp, call);
    for (Thread *lane : warp.lanes) {
      lane->call = Call::None;
      lane->runnable = true;
    }
    // The last to arrive goes on without a switch.
    thread.runnable = true;
  }

  void meetBlock(Thread &thread) {
    thread.call = Call::Barrier;
    if (++atBarrier < alive) {
      wait(thread);
      return;
    }
    atBarrier = 0;
    for (Thread &other : threads)
      if (!other.done) {
        other.call = Call::None;
        other.runnable = true;
      }
  }

private:
  const HostLaunch &launch;
  const uint64_t *args;
  uint64_t seed;
  const StackPool &pool;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<size_t> warpOrder;
  std::array<uint32_t, warpSize> laneOrder;
  /// How many lanes of the running warp had their turn.
  uint32_t turn = 0;
  struct FreeDeleter {
    void operator()(char *p) const { std::free(p); }
  };
  std::unique_ptr<char, FreeDeleter> shared;
  std::mt19937_64 random;
  uint32_t alive = 0, atBarrier = 0;
  std::optional<Failure> mismatch;

  static const kvc_simt_ops &table();

  void start(Thread &thread, uint32_t index, uint32_t x, uint32_t y,
             uint32_t z) {
    thread.context = {index, {x, y, z}, shared.get(), &table()};
    thread.done = false;
    thread.runnable = true;
    thread.call = Call::None;
    thread.warp->arrived = 0;
    thread.fiber.start(pool.stack(index), stackBytes, enter, &thread);
  }

  static void enter(void *argument) {
    Thread &thread = *static_cast<Thread *>(argument);
    BlockRunner &runner = *thread.runner;
    runner.launch.entry(&thread.context, runner.args);
    thread.done = true;
    --runner.alive;
    // Threads that have left no longer count at a barrier.
    if (runner.alive && runner.atBarrier == runner.alive)
      runner.releaseBarrier();
    thread.fiber.leave(/*forGood=*/true);
  }

  void releaseBarrier() {
    atBarrier = 0;
    for (Thread &other : threads)
      if (!other.done && other.call == Call::Barrier) {
        other.call = Call::None;
        other.runnable = true;
      }
  }

  /// The warp's next lane that can run, behind those that had their turn; else null.
  Thread *nextLane(Warp &warp) {
    while (turn < warpSize) {
      Thread &thread = *warp.lanes[laneOrder[turn++]];
      if (!thread.done && thread.runnable)
        return &thread;
    }
    return nullptr;
  }

  /// Runs each lane that can, once; false if none could.
  bool runLanes(Warp &warp) {
    bool ran = false;
    if (seed)
      std::shuffle(laneOrder.begin(), laneOrder.end(), random);
    turn = 0;
    while (Thread *thread = nextLane(warp)) {
      ran = true;
      thread->fiber.resume();
      if (mismatch)
        throw *mismatch;
    }
    return ran;
  }

  /// The next lane goes on at once: coming back here for each takes twice as long.
  void wait(Thread &thread) {
    thread.runnable = false;
    Thread *next = mismatch ? nullptr : nextLane(*thread.warp);
    if (next)
      thread.fiber.switchTo(next->fiber);
    else
      thread.fiber.leave(/*forGood=*/false);
  }

  /// What a warp does together once all lanes are there.
  void perform(Warp &warp, Call call) {
    switch (call) {
    case Call::ShuffleXor:
      for (uint32_t i = 0; i < warpSize; ++i)
        warp.lanes[i]->result =
            warp.lanes[(i ^ warp.lanes[i]->operand) % warpSize]->value;
      return;
    case Call::ShuffleUp:
      for (uint32_t i = 0; i < warpSize; ++i) {
        uint32_t distance = warp.lanes[i]->operand;
        warp.lanes[i]->result =
            warp.lanes[i >= distance ? i - distance : i]->value;
      }
      return;
    case Call::Ballot: {
      uint32_t bits = 0;
      for (uint32_t i = 0; i < warpSize; ++i)
        bits |= uint32_t(warp.lanes[i]->value != 0) << i;
      for (Thread *lane : warp.lanes)
        lane->result = bits;
      return;
    }
    case Call::Mma: {
      const uint32_t *a[warpSize], *b[warpSize];
      float *c[warpSize];
      for (uint32_t i = 0; i < warpSize; ++i) {
        a[i] = warp.lanes[i]->a;
        b[i] = warp.lanes[i]->b;
        c[i] = warp.lanes[i]->c;
      }
      warpMma(a, b, c, warp.lanes[0]->value, warp.lanes[0]->operand != 0);
      return;
    }
    default:
      return;
    }
  }

  Failure divergence() const {
    for (const Thread &thread : threads)
      if (!thread.done)
        return fail(KVC_INTERNAL_ERROR,
                    "kernel {}: threads diverge: thread {} waits in {} and "
                    "others never reach it",
                    launch.name, thread.context.thread,
                    callNames[size_t(thread.call)]);
    return fail(KVC_INTERNAL_ERROR, "kernel {}: threads diverge", launch.name);
  }
};

Thread &threadOf(kvc_simt_thread *context) {
  return *reinterpret_cast<Thread *>(context);
}

uint32_t exchange(kvc_simt_thread *context, Call call, uint32_t value,
                  uint32_t operand) {
  Thread &thread = threadOf(context);
  thread.value = value;
  thread.operand = operand;
  thread.runner->meetWarp(thread, call);
  return thread.result;
}

const kvc_simt_ops &BlockRunner::table() {
  static const kvc_simt_ops ops = {
      [](kvc_simt_thread *t) { threadOf(t).runner->meetBlock(threadOf(t)); },
      [](kvc_simt_thread *t) { exchange(t, Call::SyncWarp, 0, 0); },
      [](kvc_simt_thread *t, uint32_t value, uint32_t mask) {
        return exchange(t, Call::ShuffleXor, value, mask);
      },
      [](kvc_simt_thread *t, uint32_t value, uint32_t distance) {
        return exchange(t, Call::ShuffleUp, value, distance);
      },
      [](kvc_simt_thread *t, uint32_t bit) {
        return exchange(t, Call::Ballot, bit, 0);
      },
      [](kvc_simt_thread *t, const uint32_t *a, const uint32_t *b, float *c,
         uint32_t steps, uint32_t bf16) {
        Thread &thread = threadOf(t);
        thread.a = a;
        thread.b = b;
        thread.c = c;
        exchange(t, Call::Mma, steps, bf16);
      },
      exp2OfGPU,
      log2OfGPU,
      widenLeft,
      widenRight,
      multiplyWide,
  };
  return ops;
}

} // namespace

void kvc::rt::emulate(const HostLaunch &launch, const uint64_t *args,
                      unsigned threads, uint64_t seed) {
  runBlocks(launch.grid, threads, [&]() -> RunBlock {
    auto runner = std::make_shared<BlockRunner>(launch, args, seed);
    return
        [runner](uint32_t x, uint32_t y, uint32_t z) { runner->run(x, y, z); };
  });
}
