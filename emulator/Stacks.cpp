//===- Stacks.cpp ---------------------------------------------------------===//

#include "emulator/Stacks.h"

#include "runtime/base/Failure.h"

#include <optional>

#include <sys/mman.h>

using namespace kvc::rt;

// All fibers of a block are in the same frames: a pitch that is a power of two would put
// these into the same few sets of the cache, where they push each other out.
StackPool::StackPool(size_t count, size_t stackBytes)
    : count(count), stackBytes(stackBytes), pitch(stackBytes + 9 * 64) {
  size_t bytes = count * pitch;
  memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw fail(KVC_INTERNAL_ERROR, "cannot map {} bytes of stacks", bytes);
}

StackPool::~StackPool() { munmap(memory, count * pitch); }

const StackPool &kvc::rt::stacksFor(size_t count, size_t stackBytes) {
  static thread_local std::optional<StackPool> pools[2];
  // Many small ones, of threads; a few large ones, of warps.
  std::optional<StackPool> &pool = pools[stackBytes >= 256 * 1024];
  if (!pool || pool->count < count || pool->stackBytes != stackBytes) {
    pool.reset();
    pool.emplace(count, stackBytes);
  }
  return *pool;
}
