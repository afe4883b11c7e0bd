//===- Machine.cpp --------------------------------------------------------===//

#include "ptx/Machine.h"

#include "runtime/base/Failure.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

using namespace kvc::ptx;
using kvc::rt::fail;
using kvc::rt::Failure;

void kvc::ptx::run(const Kernel &kernel, const LaunchShape &shape,
                   std::span<const std::byte> arguments,
                   const GlobalView &memory, unsigned threads, uint64_t seed) {
  if (!shape.block || shape.block > kernel.maxThreads)
    throw fail(KVC_INTERNAL_ERROR,
               "kernel '{}' has blocks of 1 to {} threads, got {}", kernel.name,
               kernel.maxThreads, shape.block);
  if (arguments.size() != kernel.parameterBytes)
    throw fail(KVC_INTERNAL_ERROR,
               "kernel '{}' has {} bytes of parameters, got {}", kernel.name,
               kernel.parameterBytes, arguments.size());
  auto [gx, gy, gz] = shape.grid;
  uint64_t blocks = uint64_t(gx) * gy * gz;
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  std::optional<Failure> failure;
  auto work = [&] {
    try {
      for (uint64_t i; (i = next.fetch_add(1)) < blocks;)
        Block(kernel, shape, arguments, memory,
              {uint32_t(i % gx), uint32_t(i / gx % gy), uint32_t(i / gx / gy)},
              seed)
            .run();
    } catch (const Failure &caught) {
      std::lock_guard lock(mutex);
      failure.emplace(caught);
      next = blocks;
    }
  };
  if (!threads)
    threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  for (uint64_t i = 1; i < std::min<uint64_t>(threads, blocks); ++i)
    others.emplace_back(work);
  work();
  for (std::thread &other : others)
    other.join();
  if (failure)
    throw *failure;
}
