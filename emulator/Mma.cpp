//===- Mma.cpp - the matrix instruction, a warp at a time -----------------===//

#include "emulator/Mma.h"

#include "runtime/base/Half.h"

using namespace kvc::rt;

template <float (*widen)(uint16_t)>
static void run(const uint32_t *const a[32], const uint32_t *const b[32],
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
          sum[row][column] += left[row][k] * right[k][column];
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < 4; ++r)
      c[lane][r] = sum[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2];
}

void kvc::rt::warpMma(const uint32_t *const a[32], const uint32_t *const b[32],
                      float *const c[32], uint32_t steps, bool bf16) {
  bf16 ? run<fromBF16>(a, b, c, steps) : run<fromF16>(a, b, c, steps);
}

void kvc::rt::multiplyWarp(const uint32_t *a, const uint32_t *b, float *c,
                           uint32_t steps, uint32_t bf16) {
  // First as the lanes have it.
  uint32_t left[32][64], right[32][32];
  float sums[32][4];
  const uint32_t *lefts[32], *rights[32];
  float *all[32];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t r = 0; r < 4 * steps; ++r)
      left[lane][r] = a[r * 32 + lane];
    for (uint32_t r = 0; r < 2 * steps; ++r)
      right[lane][r] = b[r * 32 + lane];
    for (uint32_t r = 0; r < 4; ++r)
      sums[lane][r] = c[r * 32 + lane];
    lefts[lane] = left[lane];
    rights[lane] = right[lane];
    all[lane] = sums[lane];
  }
  warpMma(lefts, rights, all, steps, bf16 != 0);
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t r = 0; r < 4; ++r)
      c[r * 32 + lane] = sums[lane][r];
}
