#include "emulator/Warps.h"

#include "emulator/Functions.h"
#include "emulator/Mma.h"
#include "emulator/WarpProduct.h"
#include "kvc/artifact.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace kvc::rt;

namespace {

/// Each warp stores, and behind a barrier reads what the next one has stored.
void pass(kvc_simt_thread *t, const uint64_t *args) {
  auto *shared = static_cast<uint32_t *>(t->shared);
  auto *out = reinterpret_cast<uint32_t *>(args[0]) + t->block[0] * 4;
  uint32_t warp = t->thread / 32;
  for (uint32_t round = 0; round < 3; ++round) {
    shared[warp] = 10 * round + warp;
    t->ops->barrier(t);
    out[warp] = out[warp] * 100 + shared[(warp + 1) % 4];
    t->ops->barrier(t);
  }
}

/// The first warp waits for nobody that has left.
void leave(kvc_simt_thread *t, const uint64_t *args) {
  if (t->thread)
    return;
  t->ops->barrier(t);
  *reinterpret_cast<uint32_t *>(args[0]) = 1;
}

TEST(Warps, MeetAtBarriers) {
  uint32_t out[12] = {};
  uint64_t args = reinterpret_cast<uint64_t>(out);
  runWarps({"pass", pass, {3, 1, 1}, 128, 16}, &args, 2);
  for (uint32_t block = 0; block < 3; ++block)
    for (uint32_t warp = 0; warp < 4; ++warp) {
      uint32_t next = (warp + 1) % 4;
      EXPECT_EQ(out[block * 4 + warp],
                next * 10000 + (10 + next) * 100 + 20 + next);
    }
}

TEST(Warps, DoNotWaitForThoseThatLeft) {
  uint32_t out = 0;
  uint64_t args = reinterpret_cast<uint64_t>(&out);
  runWarps({"leave", leave, {1, 1, 1}, 64, 0}, &args, 1);
  EXPECT_EQ(out, 1u);
}

TEST(Warps, AskForAProcessor) {
  EXPECT_TRUE(hasProcessor(KVC_ANY_PROCESSOR));
  // Who has the fourth level has the third.
  EXPECT_LE(hasProcessor(KVC_X86_64_V4), hasProcessor(KVC_X86_64_V3));
  EXPECT_FALSE(hasProcessor(99)); // of a newer compiler
}

TEST(Warps, MultiplyAsThreadsDo) {
  std::mt19937 random(7);
  for (uint32_t bf16 : {0u, 1u})
    for (auto [steps, fresh] : std::initializer_list<std::pair<uint32_t, uint32_t>>{
             {1, 0}, {5, 1}, {8, 0}, {8, 1}, {16, 0}}) {
      std::vector<uint32_t> a(128 * steps), b(64 * steps);
      std::vector<float> c(128);
      // Numbers from 2^-7 to 2^8, either sign.
      auto half = [&] {
        uint32_t bits = random();
        return bf16 ? (bits & 0x87ff) | 0x3c00 : (bits & 0xbfff) | 0x2000;
      };
      for (uint32_t &word : a)
        word = half() | half() << 16;
      for (uint32_t &word : b)
        word = half() | half() << 16;
      for (float &x : c)
        x = float(int(random() % 2000)) / 64 - 10;
      std::vector<uint32_t> lefts(a.size()), rights(b.size());
      std::vector<float> sums(c.size());
      const uint32_t *left[32], *right[32];
      float *sum[32];
      for (uint32_t lane = 0; lane < 32; ++lane) {
        for (uint32_t r = 0; r < 4 * steps; ++r)
          lefts[lane * 4 * steps + r] = a[r * 32 + lane];
        for (uint32_t r = 0; r < 2 * steps; ++r)
          rights[lane * 2 * steps + r] = b[r * 32 + lane];
        for (uint32_t r = 0; r < 4; ++r)
          sums[lane * 4 + r] = fresh ? 0 : c[r * 32 + lane];
        left[lane] = &lefts[lane * 4 * steps];
        right[lane] = &rights[lane * 2 * steps];
        sum[lane] = &sums[lane * 4];
      }
      warpMma(left, right, sum, steps, bf16 != 0);
      std::vector<float> wideLeft(256 * steps), wideRight(128 * steps);
      widenLeft(a.data(), wideLeft.data(), steps, bf16);
      widenRight(b.data(), wideRight.data(), steps, bf16);
      multiplyWide(wideLeft.data(), wideRight.data(), c.data(), steps, fresh);
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t r = 0; r < 4; ++r)
          EXPECT_EQ(c[r * 32 + lane], sums[lane * 4 + r])
              << "bf16 " << bf16 << " steps " << steps << " lane " << lane;
    }
}

TEST(Functions, TwoToTheX) {
  EXPECT_EQ(exp2OfGPU(0), 1);
  for (int n = -126; n < 128; ++n)
    EXPECT_EQ(exp2OfGPU(float(n)), std::ldexp(1.0f, n));
  float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp2OfGPU(-infinity), 0);
  EXPECT_EQ(exp2OfGPU(-126.5f), 0);
  EXPECT_EQ(exp2OfGPU(128), infinity);
  EXPECT_EQ(exp2OfGPU(infinity), infinity);
  EXPECT_TRUE(std::isnan(exp2OfGPU(std::nanf(""))));
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) {
    float x = float(random()) / 4294967296.0f * 254 - 126;
    double exact = std::exp2(double(x));
    EXPECT_LE(std::abs(exp2OfGPU(x) - exact), exact * 1.5e-7) << x;
  }
}

} // namespace
