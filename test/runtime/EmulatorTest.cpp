#include "emulator/Emulator.h"

#include "runtime/base/Failure.h"
#include "runtime/base/Half.h"
#include "emulator/Mma.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

using namespace kvc::rt;

namespace {

HostLaunch launchOf(kvc_host_kernel kernel, uint32_t block, uint32_t grid = 1) {
  return {"test", kernel, {grid, 1, 1}, block, 4096};
}

uint32_t *words(const uint64_t *args) {
  return reinterpret_cast<uint32_t *>(args[0]);
}

/// Each thread stores, and reads its mirror image behind a barrier.
void mirror(kvc_simt_thread *t, const uint64_t *args) {
  auto *shared = static_cast<uint32_t *>(t->shared);
  shared[t->thread] = t->thread + 1;
  t->ops->barrier(t);
  words(args)[t->thread] = shared[127 - t->thread];
}

/// The same without the barrier: wrong unless threads happen to run in order.
void mirrorWithoutBarrier(kvc_simt_thread *t, const uint64_t *args) {
  auto *shared = static_cast<uint32_t *>(t->shared);
  shared[t->thread] = t->thread + 1;
  words(args)[t->thread] = shared[127 - t->thread];
}

void divergentBarrier(kvc_simt_thread *t, const uint64_t *) {
  if (t->thread < 40)
    t->ops->sync_warp(t);
}

void mixedCalls(kvc_simt_thread *t, const uint64_t *) {
  if (t->thread % 2)
    t->ops->ballot(t, 1);
  else
    t->ops->sync_warp(t);
}

void collectives(kvc_simt_thread *t, const uint64_t *args) {
  uint32_t lane = t->thread % 32;
  uint32_t *out = words(args) + t->thread * 3;
  out[0] = t->ops->shuffle_xor(t, t->thread, 5);
  out[1] = t->ops->shuffle_up(t, t->thread, 3);
  out[2] = t->ops->ballot(t, lane % 3 == 0);
}

void readsShared(kvc_simt_thread *t, const uint64_t *args) {
  words(args)[t->block[0] * 32 + t->thread] =
      static_cast<uint32_t *>(t->shared)[t->thread];
}

} // namespace

TEST(Emulator, BarrierHoldsInEveryOrder) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    std::vector<uint32_t> out(128);
    auto args = reinterpret_cast<uint64_t>(out.data());
    emulate(launchOf(mirror, 128), &args, 1, seed);
    for (uint32_t i = 0; i < 128; ++i)
      ASSERT_EQ(out[i], 128 - i);
  }
}

// What the seeded order is for.
TEST(Emulator, MissingBarrierShows) {
  std::set<std::vector<uint32_t>> results;
  for (uint64_t seed : {0, 1, 2, 3}) {
    std::vector<uint32_t> out(128);
    auto args = reinterpret_cast<uint64_t>(out.data());
    emulate(launchOf(mirrorWithoutBarrier, 128), &args, 1, seed);
    results.insert(out);
  }
  EXPECT_GT(results.size(), 1u);
}

TEST(Emulator, ReportsDivergence) {
  auto report = [](kvc_host_kernel kernel) -> std::string {
    try {
      emulate(launchOf(kernel, 64), nullptr, 1, 0);
    } catch (const Failure &failure) {
      return failure.what();
    }
    return "no report";
  };
  auto says = [](const std::string &what, const char *text) {
    EXPECT_NE(what.find(text), std::string::npos) << what;
  };
  says(report(divergentBarrier), "threads diverge: thread");
  says(report(divergentBarrier), "waits in sync_warp and others never reach it");
  says(report(mixedCalls), "lanes of one warp diverge: thread");
  says(report(mixedCalls), "sync_warp");
}

TEST(Emulator, Collectives) {
  std::vector<uint32_t> out(64 * 3);
  auto args = reinterpret_cast<uint64_t>(out.data());
  emulate(launchOf(collectives, 64), &args, 1, 9);
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(out[i * 3], i ^ 5);
    EXPECT_EQ(out[i * 3 + 1], i % 32 >= 3 ? i - 3 : i);
    EXPECT_EQ(out[i * 3 + 2], 0x49249249u);
  }
}

TEST(Emulator, SharedMemoryStartsAsNaN) {
  std::vector<uint32_t> out(3 * 32);
  auto args = reinterpret_cast<uint64_t>(out.data());
  emulate(launchOf(readsShared, 32, 3), &args, 2, 0);
  for (uint32_t word : out)
    EXPECT_EQ(word, 0xffffffffu);
}

// a[row][k] = row + k, b[k][column] = k - column, two steps of K = 16.
TEST(Mma, FollowsTheInstructionsLayout) {
  uint32_t a[32][8], b[32][4];
  float c[32][4];
  auto pack = [](float low, float high) {
    return uint32_t(toBF16(low)) | uint32_t(toBF16(high)) << 16;
  };
  for (int lane = 0; lane < 32; ++lane)
    for (int step = 0; step < 2; ++step) {
      for (int r = 0; r < 4; ++r) {
        int row = lane / 4 + r % 2 * 8;
        int k = step * 16 + lane % 4 * 2 + r / 2 * 8;
        a[lane][step * 4 + r] = pack(float(row + k), float(row + k + 1));
        c[lane][r] = 1;
      }
      for (int r = 0; r < 2; ++r) {
        int k = step * 16 + lane % 4 * 2 + r * 8, column = lane / 4;
        b[lane][step * 2 + r] = pack(float(k - column), float(k + 1 - column));
      }
    }
  const uint32_t *pa[32], *pb[32];
  float *pc[32];
  for (int lane = 0; lane < 32; ++lane) {
    pa[lane] = a[lane];
    pb[lane] = b[lane];
    pc[lane] = c[lane];
  }
  warpMma(pa, pb, pc, 2, true);
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < 4; ++r) {
      int row = lane / 4 + r / 2 * 8, column = lane % 4 * 2 + r % 2;
      float want = 1;
      for (int k = 0; k < 32; ++k)
        want += float(row + k) * float(k - column);
      EXPECT_EQ(c[lane][r], want);
    }
}
