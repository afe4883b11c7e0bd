//===- Mma.cpp - the matrix instruction, a warp at a time -----------------===//

#include "emulator/Mma.h"

#include "runtime/base/Half.h"

#include <algorithm>
#include <cstring>

using namespace kvc::rt;

#define KVC_INLINE inline __attribute__((always_inline))

//===----------------------------------------------------------------------===//
// Of threads
//===----------------------------------------------------------------------===//

template <float (*widen)(uint16_t)>
static KVC_INLINE void run(const uint32_t *const a[32],
                           const uint32_t *const b[32], float *const c[32],
                           uint32_t steps) {
  float left[16][16], right[16][8], sum[16][8];
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < 4; ++r)
      sum[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2] = c[lane][r];
  for (uint32_t step = 0; step < steps; ++step) {
    for (int lane = 0; lane < 32; ++lane)
      for (int half = 0; half < 2; ++half) {
        int k = lane % 4 * 2 + half, shift = 16 * half;
        for (int r = 0; r < 4; ++r)
          left[lane / 4 + r % 2 * 8][k + r / 2 * 8] =
              widen(uint16_t(a[lane][step * 4 + r] >> shift));
        for (int r = 0; r < 2; ++r)
          right[k + r * 8][lane / 4] =
              widen(uint16_t(b[lane][step * 2 + r] >> shift));
      }
    for (int row = 0; row < 16; ++row)
      for (int k = 0; k < 16; ++k)
        for (int column = 0; column < 8; ++column)
          sum[row][column] =
              __builtin_fmaf(left[row][k], right[k][column], sum[row][column]);
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < 4; ++r)
      c[lane][r] = sum[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2];
}

static KVC_INLINE void runAny(const uint32_t *const a[32],
                              const uint32_t *const b[32], float *const c[32],
                              uint32_t steps, bool bf16) {
  bf16 ? run<fromBF16>(a, b, c, steps) : run<fromF16>(a, b, c, steps);
}

#if defined(__x86_64__)
/// Elsewhere each product and sum is a call.
__attribute__((target("avx2,fma"))) static void
runFused(const uint32_t *const a[32], const uint32_t *const b[32],
         float *const c[32], uint32_t steps, bool bf16) {
  runAny(a, b, c, steps, bf16);
}
static bool hasFused() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

void kvc::rt::warpMma(const uint32_t *const a[32], const uint32_t *const b[32],
                      float *const c[32], uint32_t steps, bool bf16) {
#if defined(__x86_64__)
  if (hasFused())
    return runFused(a, b, c, steps, bf16);
#endif
  runAny(a, b, c, steps, bf16);
}

//===----------------------------------------------------------------------===//
// The same from vectors of lanes
//===----------------------------------------------------------------------===//

namespace {

typedef uint16_t Halves __attribute__((vector_size(16)));
typedef uint32_t Words __attribute__((vector_size(32)));
typedef float Floats __attribute__((vector_size(32)));
typedef float Quads __attribute__((vector_size(16)));

KVC_INLINE void widen(Halves halves, bool bf16, float *to) {
  if (bf16) {
    Words words = __builtin_convertvector(halves, Words) << 16;
    std::memcpy(to, &words, sizeof words);
    return;
  }
  for (int i = 0; i < 8; ++i)
    to[i] = fromF16(halves[i]);
}

/// sum += x * y with one rounding.
KVC_INLINE void addProducts(Floats &sum, float x, const Floats &y) {
#if __has_builtin(__builtin_elementwise_fma)
  sum = __builtin_elementwise_fma(Floats{x, x, x, x, x, x, x, x}, y, sum);
#else
  for (int i = 0; i < 8; ++i)
    sum[i] = __builtin_fmaf(x, y[i], sum[i]);
#endif
}

/// Rows of eight become columns.
KVC_INLINE void transpose(Halves m[8]) {
  Halves next[8];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      next[2 * i] =
          __builtin_shufflevector(m[i], m[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * i + 1] =
          __builtin_shufflevector(m[i], m[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    std::memcpy(m, next, sizeof next);
  }
}

/// A row of sums: of two registers of four lanes in a row, columns alternate.
KVC_INLINE void loadRow(Floats &sums, const float *c, int row) {
  Quads even, odd;
  const float *first = c + row / 8 * 64 + row % 8 * 4;
  std::memcpy(&even, first, sizeof even);
  std::memcpy(&odd, first + 32, sizeof odd);
  sums = __builtin_shufflevector(even, odd, 0, 4, 1, 5, 2, 6, 3, 7);
}
KVC_INLINE void storeRow(const Floats &sums, float *c, int row) {
  Quads even = __builtin_shufflevector(sums, sums, 0, 2, 4, 6),
        odd = __builtin_shufflevector(sums, sums, 1, 3, 5, 7);
  float *first = c + row / 8 * 64 + row % 8 * 4;
  std::memcpy(first, &even, sizeof even);
  std::memcpy(first + 32, &odd, sizeof odd);
}

constexpr uint32_t stepsAtOnce = 8;

/// Rows of the left side and columns of the right one are in a row in registers of
/// lanes, eight elements at a time.
/// `together` rows have their sums in registers.
template <int together>
KVC_INLINE void multiply(const uint32_t *a, const uint32_t *b, float *c,
                         uint32_t steps, bool bf16) {
  alignas(32) float left[16][16 * stepsAtOnce], right[16 * stepsAtOnce][8];
  for (uint32_t step = 0; step < steps; ++step)
    for (int half = 0; half < 2; ++half) {
      uint32_t k = step * 16 + half * 8;
      for (int row = 0; row < 16; ++row) {
        Halves eight;
        std::memcpy(&eight,
                    a + (step * 4 + half * 2 + row / 8) * 32 + row % 8 * 4, 16);
        widen(eight, bf16, left[row] + k);
      }
      Halves columns[8];
      std::memcpy(columns, b + (step * 2 + half) * 32, sizeof columns);
      transpose(columns);
      for (int i = 0; i < 8; ++i)
        widen(columns[i], bf16, right[k + i]);
    }
  for (int first = 0; first < 16; first += together) {
    Floats sums[together];
    for (int row = 0; row < together; ++row)
      loadRow(sums[row], c, first + row);
    for (uint32_t k = 0; k < steps * 16; ++k) {
      Floats columns;
      std::memcpy(&columns, right[k], sizeof columns);
#pragma GCC unroll 16
      for (int row = 0; row < together; ++row)
        addProducts(sums[row], left[first + row][k], columns);
    }
    for (int row = 0; row < together; ++row)
      storeRow(sums[row], c, first + row);
  }
}

template <int together>
KVC_INLINE void multiplyAll(const uint32_t *a, const uint32_t *b, float *c,
                            uint32_t steps, bool bf16) {
  for (uint32_t done = 0; done < steps; done += stepsAtOnce) {
    uint32_t count = std::min(steps - done, stepsAtOnce);
    if (bf16)
      multiply<together>(a + done * 128, b + done * 64, c, count, true);
    else
      multiply<together>(a + done * 128, b + done * 64, c, count, false);
  }
}

void multiplyAnywhere(const uint32_t *a, const uint32_t *b, float *c,
                      uint32_t steps, uint32_t bf16) {
  multiplyAll<8>(a, b, c, steps, bf16 != 0);
}

#if defined(__x86_64__)
/// 16 registers: sums of eight rows.
__attribute__((target("avx2,fma"))) void multiplyFused(const uint32_t *a,
                                                       const uint32_t *b,
                                                       float *c, uint32_t steps,
                                                       uint32_t bf16) {
  multiplyAll<8>(a, b, c, steps, bf16 != 0);
}

/// 32 registers: of all rows, so that no sum waits for the one before it.
__attribute__((target("avx512vl,avx2,fma"))) void
multiplyFused32(const uint32_t *a, const uint32_t *b, float *c, uint32_t steps,
                uint32_t bf16) {
  multiplyAll<16>(a, b, c, steps, bf16 != 0);
}
#endif

} // namespace

void kvc::rt::multiplyWarp(const uint32_t *a, const uint32_t *b, float *c,
                           uint32_t steps, uint32_t bf16) {
#if defined(__x86_64__)
  if (hasFused() && __builtin_cpu_supports("avx512vl"))
    return multiplyFused32(a, b, c, steps, bf16);
  if (hasFused())
    return multiplyFused(a, b, c, steps, bf16);
#endif
  multiplyAnywhere(a, b, c, steps, bf16);
}
