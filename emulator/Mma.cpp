//===- Mma.cpp - the matrix instruction, from the registers of threads ----===//

#include "emulator/Mma.h"

#include "runtime/base/Half.h"

using namespace kvc::rt;

template <float (*widen)(uint16_t)>
static __attribute__((always_inline)) inline void
run(const uint32_t *const a[32], const uint32_t *const b[32],
    float *const c[32], uint32_t steps) {
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

static __attribute__((always_inline)) inline void
runAny(const uint32_t *const a[32], const uint32_t *const b[32],
       float *const c[32], uint32_t steps, bool bf16) {
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
