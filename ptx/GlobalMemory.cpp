//===- GlobalMemory.cpp ---------------------------------------------------===//

#include "ptx/GlobalMemory.h"

#include "ptx/Types.h"
#include "runtime/base/Failure.h"

#include <cstdlib>
#include <cstring>

using namespace kvc::ptx;
using kvc::rt::fail;

/// Bytes on both sides of an allocation that are nobody's, and the alignment.
static constexpr uint64_t around = 256;

GlobalMemory::~GlobalMemory() {
  for (auto [address, bytes] : allocations)
    std::free(reinterpret_cast<void *>(address - around));
}

void *GlobalMemory::allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 2)
    throw fail(KVC_INTERNAL_ERROR, "cannot allocate {} bytes", bytes);
  uint64_t all = (bytes + 3 * around - 1) / around * around;
  void *memory = std::aligned_alloc(around, all);
  if (!memory)
    throw fail(KVC_INTERNAL_ERROR, "cannot allocate {} bytes", bytes);
  std::memset(memory, 0xff, all);
  uint64_t first = reinterpret_cast<uint64_t>(memory) + around;
  std::lock_guard lock(mutex);
  allocations[first] = bytes;
  return reinterpret_cast<void *>(first);
}

void GlobalMemory::release(void *memory) {
  std::lock_guard lock(mutex);
  auto found = allocations.find(reinterpret_cast<uint64_t>(memory));
  if (found == allocations.end())
    return;
  std::free(reinterpret_cast<void *>(found->first - around));
  allocations.erase(found);
}

GlobalView GlobalMemory::view() const {
  std::lock_guard lock(mutex);
  return GlobalView(allocations);
}

std::byte *GlobalView::at(uint64_t address, uint32_t bytes) const {
  if (!isMultiple(address, bytes))
    throw fail(KVC_INTERNAL_ERROR,
               "a global address must be a multiple of {}, got {:#x}", bytes,
               address);
  auto next = allocations.upper_bound(address + around);
  if (next != allocations.begin()) {
    auto [first, size] = *std::prev(next);
    bool near =
        address + bytes > first - around && address < first + size + around;
    if (near && (address < first || address + bytes > first + size))
      throw fail(KVC_INTERNAL_ERROR,
                 "an allocation has {} bytes, got an access of {} at {}", size,
                 bytes, int64_t(address - first));
  }
  return reinterpret_cast<std::byte *>(address);
}

std::pair<uint64_t, uint64_t> GlobalView::allocation(uint64_t address) const {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin())
    return {0, 0};
  auto [first, size] = *std::prev(next);
  return address < first + size ? std::pair(first, size)
                                : std::pair<uint64_t, uint64_t>(0, 0);
}
