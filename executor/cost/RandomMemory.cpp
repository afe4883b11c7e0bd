//===- RandomMemory.cpp ---------------------------------------------------===//

#include "executor/cost/RandomMemory.h"

#include "runtime/base/DType.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

/// Out of a few thousand numbers: a layer of 128K tokens would take minutes to draw.
void *kvc::rt::randomRows(Arena &arena, uint64_t rows, size_t width,
                          kvc_dtype dtype, float deviation) {
  std::mt19937_64 generator(rows * width);
  std::normal_distribution<float> normal;
  constexpr size_t different = 4096;
  std::vector<float> values(different);
  for (float &value : values)
    value = deviation * normal(generator);
  std::vector<std::byte> pool = narrow(values.data(), different, dtype);
  size_t bytes = dtypeBytes(dtype), rowBytes = width * bytes;
  // Not cleared: a profiler must see what nobody writes.
  auto *memory = arena.fresh<std::byte>(rows * rowBytes);
  // Some at a time: an upload to a GPU is a wait, and a layer may be gigabytes.
  const uint64_t most = std::max<uint64_t>(1, (1 << 22) / rowBytes);
  std::vector<std::byte> some(std::min(rows, most) * rowBytes);
  for (uint64_t first = 0; first < rows; first += most) {
    size_t filled = std::min(most, rows - first) * rowBytes;
    for (size_t at = 0; at < filled; at += bytes)
      std::memcpy(&some[at], &pool[generator() % different * bytes], bytes);
    arena.device.upload(memory + first * rowBytes, some.data(), filled);
  }
  return memory;
}

std::vector<int32_t> kvc::rt::shuffledPages(uint32_t pages) {
  std::vector<int32_t> table(pages);
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(1));
  return table;
}
