//===- SharedMatrix.cpp ---------------------------------------------------===//

#include "ptx/SharedMatrix.h"

#include "runtime/base/Failure.h"

#include <algorithm>
#include <cstring>

using namespace kvc::ptx;
using kvc::rt::fail;

static constexpr uint32_t chunk = 16; // bytes that a swizzle leaves together

SharedMatrix::SharedMatrix(uint64_t descriptor, Major major, uint32_t extent)
    : major(major) {
  constexpr uint64_t known = 0xc00e3fff3fff3fff;
  if (descriptor & ~known)
    throw fail(KVC_INTERNAL_ERROR,
               "bits of a matrix descriptor that mean nothing must be 0, got "
               "{:#x}",
               descriptor);
  if (uint64_t base = descriptor >> 49 & 7)
    throw fail(KVC_UNSUPPORTED,
               "the base offset of a matrix descriptor must be 0, got {}",
               base);
  auto bytes = [&](int bit) {
    return uint32_t(descriptor >> bit & 0x3fff) * 16;
  };
  start = bytes(0), leading = bytes(16), stride = bytes(32);
  constexpr uint32_t rows[] = {16, 128, 64, 32}; // by swizzle
  row = rows[descriptor >> 62];
  if (row == chunk)
    return;
  // A hardware pattern is bound to addresses, and so is the swap of its chunks.
  uint32_t pattern = 8 * row;
  if (start % pattern >= row)
    throw fail(
        KVC_UNSUPPORTED,
        "a matrix of swizzle {} must begin in the first row of a pattern "
        "of {} bytes, got address {}",
        row, pattern, start);
  uint32_t together = std::min(row, 2 * (major == Major::K ? depth : extent));
  if (start % row + together > row)
    throw fail(KVC_INTERNAL_ERROR,
               "a matrix of swizzle {} must have {} bytes in a row, got {} "
               "from address {} on",
               row, together, row - start % row, start);
  auto check = [&](uint32_t step, bool used) {
    if (used && step % pattern)
      throw fail(KVC_UNSUPPORTED,
                 "a matrix of swizzle {} must have patterns multiples of {} "
                 "bytes apart, got {}",
                 row, pattern, step);
  };
  check(stride, major == Major::MN || extent > 8);
  check(leading, major == Major::MN && 2 * extent > row);
}

uint32_t SharedMatrix::addressOf(uint32_t index, uint32_t k) const {
  uint32_t inRow = row / 2, at = start;
  if (major == Major::K) {
    at += index / 8 * stride + index % 8 * row;
    at += row == chunk ? k / 8 * leading + k % 8 * 2 : k * 2;
  } else {
    bool swaps = row != chunk;
    at += index / inRow * (swaps ? leading : stride) + index % inRow * 2;
    at += k / 8 * (swaps ? stride : leading) + k % 8 * row;
  }
  return swizzled(at, row);
}

void SharedMatrix::read(SharedMemory &memory, uint32_t first, uint32_t count,
                        uint16_t *to, Access access) const {
  auto eight = [&](uint32_t index, uint32_t k, uint32_t step) {
    uint16_t values[8];
    std::memcpy(values, memory.readAsync(addressOf(index, k), chunk, access),
                chunk);
    for (uint32_t i = 0; i < 8; ++i)
      to[(index - first) * depth + k + i * step] = values[i];
  };
  if (major == Major::K) {
    for (uint32_t index = first; index < first + count; ++index)
      for (uint32_t k = 0; k < depth; k += 8)
        eight(index, k, 1);
  } else {
    for (uint32_t index = first; index < first + count; index += 8)
      for (uint32_t k = 0; k < depth; ++k)
        eight(index, k, depth);
  }
}
