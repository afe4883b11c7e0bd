//===- RandomMemory.cpp ---------------------------------------------------===//

#include "executor/eviction/RandomMemory.h"

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
  size_t bytes = dtypeBytes(dtype);
  std::vector<std::byte> row(width * bytes);
  // Not cleared: a profiler must see what nobody writes.
  auto *memory = arena.fresh<std::byte>(rows * row.size());
  for (uint64_t i = 0; i < rows; ++i) {
    for (size_t channel = 0; channel < width; ++channel)
      std::memcpy(&row[channel * bytes], &pool[generator() % different * bytes],
                  bytes);
    arena.device.upload(memory + i * row.size(), row.data(), row.size());
  }
  return memory;
}

std::vector<int32_t> kvc::rt::shuffledPages(uint32_t pages) {
  std::vector<int32_t> table(pages);
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(1));
  return table;
}
