//===- Blocks.cpp ---------------------------------------------------------===//

#include "emulator/Blocks.h"

#include "emulator/Workers.h"
#include "runtime/base/Failure.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

void kvc::rt::runBlocks(std::array<uint32_t, 3> grid, unsigned threads,
                        const std::function<RunBlock()> &makeRunner) {
  auto [gx, gy, gz] = grid;
  uint64_t blocks = uint64_t(gx) * gy * gz;
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  std::optional<Failure> failure;
  auto work = [&, gx = gx, gy = gy] {
    try {
      RunBlock run = makeRunner();
      for (uint64_t i; (i = next.fetch_add(1)) < blocks;)
        run(uint32_t(i % gx), uint32_t(i / gx % gy), uint32_t(i / gx / gy));
    } catch (const Failure &caught) {
      std::lock_guard lock(mutex);
      failure.emplace(caught);
      next = blocks;
    }
  };
  if (!threads)
    threads = std::max(1u, std::thread::hardware_concurrency());
  threads = unsigned(std::min<uint64_t>(threads, blocks));
  if (threads)
    runBeside(threads - 1, work);
  if (failure)
    throw *failure;
}
