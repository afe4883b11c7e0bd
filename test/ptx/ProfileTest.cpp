//===- ProfileTest.cpp - counters and estimates, by hand ------------------===//

#include "test/ptx/Kernel.h"

#include "ptx/profile/Estimate.h"
#include "ptx/profile/Registers.h"
#include "ptx/profile/Report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace kvc::ptx;
using kvc::test::kernelText;
using testing::HasSubstr;

namespace {

/// A launch of `blocks` blocks of 32 threads; results are 8 bytes a thread.
LaunchProfile profileOf(const std::string &body, uint32_t blocks = 1,
                        uint32_t run = 0, uint32_t threads = 32,
                        const std::string &directive = "") {
  std::string text = kernelText(body);
  text.insert(text.find("\n{\n"), "\n" + directive);
  Program program = parse(text);
  GlobalMemory memory;
  void *results = memory.allocate(blocks * threads * 8);
  std::byte argument[8];
  std::memcpy(argument, &results, 8);
  Profiler profiler({findCard("h100"), run, {}});
  profiler.run(program.kernels.at("kernel"), {{blocks, 1, 1}, threads},
               argument, memory.view(), 1, 0);
  return profiler.launches().front();
}

double units(const LaunchProfile &profile, Unit unit) {
  return profile.counters.issues[size_t(unit)];
}

TEST(Profile, SharedMemoryBanks) {
  auto passes = [](const std::string &body) {
    LaunchProfile with = profileOf("mov.b32 %r9, shared; " + body);
    EXPECT_EQ(with.counters.sharedRequests, 1);
    return std::pair(with.counters.sharedPasses, with.counters.sharedIdeal);
  };
  // A word a lane, side by side; all lanes one word.
  EXPECT_EQ(passes("shl.b32 %r1, %r0, 2; add.s32 %r1, %r1, %r9;"
                   "st.shared.b32 [%r1], %r0;"),
            std::pair(1.0, 1.0));
  EXPECT_EQ(passes("ld.shared.b32 %r2, [%r9];"), std::pair(1.0, 1.0));
  // Every fourth word: lanes 0, 8, 16, 24 want the same bank.
  EXPECT_EQ(passes("shl.b32 %r1, %r0, 4; add.s32 %r1, %r1, %r9;"
                   "st.shared.b32 [%r1], %r0;"),
            std::pair(4.0, 1.0));
  // 16 bytes a lane: four groups of eight lanes, 128 bytes each.
  EXPECT_EQ(passes("shl.b32 %r1, %r0, 4; add.s32 %r1, %r1, %r9;"
                   "st.shared.v4.b32 [%r1], {%r0, %r0, %r0, %r0};"),
            std::pair(4.0, 4.0));
  // 16 bytes, the same to all lanes: as many passes, since lanes get 128 bytes in each.
  EXPECT_EQ(passes("ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r9];"),
            std::pair(4.0, 4.0));
  // Every other 16 bytes: of eight lanes two want the same bank.
  EXPECT_EQ(passes("shl.b32 %r1, %r0, 5; add.s32 %r1, %r1, %r9;"
                   "st.shared.v4.b32 [%r1], {%r0, %r0, %r0, %r0};"),
            std::pair(8.0, 4.0));
  // Rows of 16 bytes, eight a matrix: side by side, and all in the same banks.
  EXPECT_EQ(passes("shl.b32 %r1, %r0, 4; add.s32 %r1, %r1, %r9;"
                   "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r2, %r3}, "
                   "[%r1];")
                .first,
            2);
  EXPECT_EQ(passes("and.b32 %r1, %r0, 7; shl.b32 %r1, %r1, 7; add.s32 %r1, "
                   "%r1, %r9; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, "
                   "[%r1];")
                .first,
            8);
  // Atomics read and write.
  EXPECT_EQ(passes("atom.shared.add.u32 %r2, [%r9], 1;"), std::pair(2.0, 2.0));
}

TEST(Profile, Sectors) {
  // 8 bytes a lane, 256 in a row: what the kernel around the body stores.
  LaunchProfile none = profileOf("");
  EXPECT_EQ(none.counters.loadRequests, 0);
  EXPECT_EQ(none.counters.globalPasses, 2);
  EXPECT_EQ(none.counters.l2Bytes, 256);
  EXPECT_EQ(none.dramWritten, 256);
  // 2 of every 8 bytes: 64 bytes are wanted, 256 are moved.
  LaunchProfile strided = profileOf("ld.global.b16 %h1, [%d1];");
  EXPECT_EQ(strided.counters.loadRequests, 1);
  EXPECT_EQ(strided.counters.loadSectors, 8);
  EXPECT_EQ(strided.counters.loadIdeal, 2);
  EXPECT_EQ(strided.dramRead, 256);
  EXPECT_EQ(strided.counters.l2Bytes, 512);
  // Again: the cache of the block has it.
  LaunchProfile again =
      profileOf("ld.global.b16 %h1, [%d1]; ld.global.b16 %h2, [%d1];");
  EXPECT_EQ(again.counters.loadSectors, 16);
  EXPECT_EQ(again.counters.l2Bytes, 512);
}

TEST(Profile, CopiesAreUnderWayUntilTheyAreWaitedFor) {
  // 16 bytes a lane, 512 in a row; the results have room for 64 threads.
  std::string copy =
      "mov.b32 %r9, shared; shl.b32 %r1, %r0, 4; add.s32 %r1, %r1, %r9;"
      "cvt.u64.u32 %d4, %r0; shl.b64 %d4, %d4, 4; add.s64 %d4, %d4, %d0;"
      "cp.async.cg.shared.global [%r1], [%d4], 16; cp.async.commit_group;";
  auto of = [](const std::string &body) { return profileOf(body, 2); };
  LaunchProfile begun = of(copy),
                waited = of(copy + "cp.async.wait_group 0; bar.sync 0;"),
                later = of(copy + "cp.async.wait_group 1; bar.sync 0;");
  EXPECT_EQ(begun.counters.loadSectors, 2 * 16);
  EXPECT_EQ(begun.counters.loadIdeal, 2 * 16);
  EXPECT_EQ(begun.counters.sharedPasses, 2 * 4);
  EXPECT_EQ(begun.dramRead, 512);
  // Beside it the results of two blocks, which store to the same 256 bytes.
  EXPECT_EQ(begun.counters.l2Bytes, 2 * (512 + 256));
  EXPECT_LT(begun.longestPath, 100);
  EXPECT_LT(later.longestPath, 100);
  EXPECT_GT(waited.longestPath, 650);
}

TEST(Profile, UnitsAndPath) {
  // Four exponentials one behind the other, and four side by side.
  std::string chain, wide;
  for (int i = 0; i < 4; ++i) {
    chain += "ex2.approx.ftz.f32 %r1, %r1;";
    wide += "ex2.approx.ftz.f32 %r" + std::to_string(i + 2) + ", %r1;";
  }
  LaunchProfile none = profileOf("mov.b32 %r1, 0;"),
                deep = profileOf("mov.b32 %r1, 0;" + chain),
                flat = profileOf("mov.b32 %r1, 0;" + wide);
  EXPECT_EQ(deep.counters.special, 4);
  EXPECT_EQ(flat.counters.special, 4);
  EXPECT_EQ(units(deep, Unit::Special), 4);
  EXPECT_EQ(units(none, Unit::Special), 0);
  // mov 2, then 3 x 25 clocks before the last is issued; side by side the unit
  // takes a warp every 8 clocks.
  EXPECT_EQ(deep.longestPath, 2 + 3 * 25 + 6);
  EXPECT_EQ(flat.longestPath, 32);
  EXPECT_LT(none.longestPath, 32);
}

TEST(Profile, WarpgroupProducts) {
  // m64n64k16: a warp has 16 rows of it, eight mma.m16n8k16. Four warps.
  std::string registers = "%r1";
  for (int i = 2; i <= 31; ++i)
    registers += ", %r" + std::to_string(i);
  auto products = [&](int count, const std::string &meanwhile = "") {
    std::string body = ".reg .b32 %x; mov.b64 %d3, 0x4000004000010000;\n"
                       "wgmma.fence.sync.aligned;\n";
    for (int i = 0; i < count; ++i)
      body += "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" +
              registers + ", %x}, %d3, %d3, 1, 1, 1, 0, 0;\n";
    return profileOf(".shared .align 1024 .b8 tiles[16384];" + body +
                         "wgmma.commit_group.sync.aligned;\n" + meanwhile +
                         "wgmma.wait_group.sync.aligned 0; mov.b32 %r0, %r1;",
                     1, 0, 128);
  };
  LaunchProfile two = products(2), six = products(6);
  EXPECT_EQ(two.counters.matrix, 4 * 2 * 8);
  EXPECT_EQ(two.counters.warpgroupMatrix, two.counters.matrix);
  EXPECT_EQ(units(six, Unit::Matrix), 4 * 6);
  // At the rate of the best kernels, a quarter of an SM a warp.
  const Card &h100 = findCard("h100");
  double clocks = warpgroupMatrixClocks(h100);
  EXPECT_NEAR(clocks, 5.42, 0.005);
  EXPECT_NEAR(estimate(six, h100).busy[size_t(Resource::Matrix)] * h100.clock,
              6 * 8 * clocks, 1e-6);
  // One behind the other, and the last one's results are waited for.
  EXPECT_NEAR(six.longestPath - two.longestPath, 4 * 8 * clocks, 0.01);
  EXPECT_NEAR(two.longestPath, 33 + 2 * 8 * clocks, 10);
  // They run beside what follows, through branches as well: 40 sums of 5 clocks, then 80.
  auto sums = [](int count) {
    std::string body = "mov.f32 %s, 0f3F800000;\n";
    for (int i = 0; i < count; ++i)
      body += "add.f32 %s, %s, %s;\n";
    return ".reg .f32 %s;" + body +
           "setp.eq.s32 %p2, %r0, 500;\n"
           "@%p2 bra $never;\nmov.b32 %r0, 1;\n$never:\n";
  };
  double of40 = products(6, sums(40)).longestPath,
         of80 = products(6, sums(80)).longestPath;
  EXPECT_NEAR(of40, six.longestPath, 12);
  EXPECT_GT(of80, 80 * 5);
  EXPECT_LT(of80, 80 * 5 + 60);
}

TEST(Profile, WhatConstantsMakeIsNotCounted) {
  double none = units(profileOf(""), Unit::Integer);
  EXPECT_EQ(units(profileOf("setp.ne.s32 %p1, 1, 0; add.s32 %r1, 3, 4;"),
                  Unit::Integer),
            none);
  EXPECT_EQ(units(profileOf("add.s32 %r1, %r0, 4;"), Unit::Integer), none + 1);
}

TEST(Profile, WhatOtherLanesSkipIsNotCountedForThem) {
  // One lane loops 100 times: the warp does, once.
  LaunchProfile loop = profileOf(
      "setp.ne.s32 %p1, %r0, 5;\n@%p1 bra $out;\nmov.b32 %r1, 0;\n$loop:\n"
      "add.f32 %r2, %r1, %r1; add.s32 %r1, %r1, 1;\n"
      "setp.lt.s32 %p2, %r1, 100;\n@%p2 bra $loop;\n$out:");
  EXPECT_EQ(units(loop, Unit::Float) - units(profileOf(""), Unit::Float), 100);
  EXPECT_EQ(units(loop, Unit::Control), 1 + 100 + 1);
}

TEST(Profile, SampledBlocksStandForAll) {
  // Block i stores its own 256 bytes; all read the first 256.
  std::string body = "mov.u32 %r1, %ctaid.x; mul.wide.u32 %d3, %r1, 256;\n"
                     "ld.global.b64 %d4, [%d1]; add.s64 %d1, %d1, %d3;";
  LaunchProfile all = profileOf(body, 64), some = profileOf(body, 64, 8);
  EXPECT_EQ(all.ran, 64u);
  EXPECT_EQ(some.ran, 8u);
  EXPECT_EQ(some.blocks, 64u);
  EXPECT_EQ(some.counters.totalIssues(), all.counters.totalIssues());
  EXPECT_EQ(some.dramWritten, 64 * 256);
  EXPECT_EQ(some.dramWritten, all.dramWritten);
  EXPECT_EQ(some.dramRead, 256);
  EXPECT_EQ(some.dramRead, all.dramRead);
}

TEST(Profile, GapsOfASampledLaunchAreFilled) {
  Program program =
      parse(kernelText("mov.u32 %r1, %ctaid.x; mul.wide.u32 %d3, %r1, 256;\n"
                       "add.s64 %d1, %d1, %d3; mov.b64 %d2, 7;"));
  GlobalMemory memory;
  auto *results = static_cast<uint64_t *>(memory.allocate(64 * 256));
  std::byte argument[8];
  std::memcpy(argument, &results, 8);
  Profiler profiler({findCard("h100"), 4, {}});
  profiler.run(program.kernels.at("kernel"), {{64, 1, 1}, 32}, argument,
               memory.view(), 1, 0);
  // Behind the first block that ran every word is one that somebody wrote.
  for (size_t i = 9 * 32; i < 64 * 32; ++i)
    EXPECT_TRUE(uint32_t(results[i]) == 7 || uint32_t(results[i]) == 0);
}

TEST(Profile, Occupancy) {
  const Card &h100 = findCard("h100");
  // 65536 registers over 4 warps of 32 x 168; 64 warps; 32 blocks; 227 KiB of
  // shared memory, 1 KiB more for each block.
  EXPECT_EQ(residentBlocks(h100, 128, 168, 0), 3u);
  EXPECT_EQ(residentBlocks(h100, 512, 32, 0), 4u);
  EXPECT_EQ(residentBlocks(h100, 32, 16, 0), 32u);
  EXPECT_EQ(residentBlocks(h100, 128, 32, 64 << 10), 3u);
  EXPECT_EQ(residentBlocks(h100, 1024, 255, 0), 1u);
}

/// `turns` times around, one addition after the other.
std::string chain(const std::string &turns) {
  return "mov.b32 %r2, " + turns + ";\n$turn:\nadd.s32 %r2, %r2, -1; " +
         "setp.ne.s32 %p1, %r2, 0;\n@%p1 bra $turn;\n";
}

TEST(Profile, BlocksWithoutWorkTakeNoSM) {
  const std::string every = "mov.u32 %r1, %ctaid.x; and.b32 %r1, %r1, 3;"
                            "setp.ne.s32 %p0, %r1, 0;\n@%p0 ret;\n";
  EXPECT_EQ(profileOf(chain("100"), 8).working, 8);
  EXPECT_EQ(profileOf(every + chain("100"), 8).working, 2);
  EXPECT_EQ(profileOf(every + chain("100"), 8).blocks, 8);
  // Of a part of the blocks, as if all had run: 0 and 4 are not among them.
  EXPECT_EQ(profileOf(chain("100"), 4096, 4).working, 4096);
}

TEST(Profile, BlocksOfAClusterWaitForEachOther) {
  const std::string pair = ".reqnctapercluster 2, 1, 1",
                    late = "mov.u32 %r1, %ctaid.x; setp.ne.s32 %p0, %r1, 1;\n"
                           "@%p0 bra $meet;\n" +
                           chain("500") + "$meet:\n",
                    meet = "barrier.cluster.arrive.aligned; "
                           "barrier.cluster.wait.aligned;\n";
  auto of = [&](const std::string &body) {
    LaunchProfile profile = profileOf(body, 2, 0, 32, pair);
    return std::pair(profile.longestPath, profile.counters.path);
  };
  auto [apart, both] = of(late);
  auto [longest, sum] = of(late + meet);
  // A barrier of it took an H200 711 clocks.
  EXPECT_NEAR(longest, apart + 711, 10);
  EXPECT_NEAR(sum, 2 * longest, 10);
  EXPECT_LT(both, 1.2 * apart);
  // What is brought to L1 is read from L2 again.
  const std::string load = "ld.global.b32 %r3, [%d1];\n";
  auto bytes = [&](const std::string &body) {
    return profileOf(body, 2, 0, 32, pair).counters.l2Bytes;
  };
  EXPECT_EQ(bytes(load + load), bytes(load));
  EXPECT_EQ(bytes(load + meet + load), bytes(load) + 2 * 256);
}

TEST(Profile, Estimates) {
  LaunchProfile launch;
  launch.blocks = launch.working = launch.ran = 264;
  launch.resident = 2;
  launch.threads = 128;
  launch.dramRead = launch.distinctRead = 28.5e6;
  launch.counters.l2Bytes = 86e6;
  launch.counters.matrix = 132 * 4 * 1980;
  const Card &h100 = findCard("h100");
  Estimate e = estimate(launch, h100);
  auto busy = [&](Resource resource) { return e.busy[size_t(resource)]; };
  EXPECT_NEAR(busy(Resource::Dram), 10e-6, 1e-9);
  EXPECT_NEAR(busy(Resource::L2), 10e-6, 1e-9);
  EXPECT_NEAR(busy(Resource::Matrix), 6.77e-6, 1e-9);
  // The first launch of a call has what a graph takes to begin and end.
  EXPECT_NEAR(e.low, 16e-6, 1e-9);
  EXPECT_NEAR(e.floor, 14.7e-6, 1e-9); // no floor has a kernel's start
  EXPECT_NEAR(e.high, 6e-6 + 1.15 * std::sqrt(100 + 100 + 6.77 * 6.77) * 1e-6,
              1e-8);
  // One that follows, and one that begins early, where the card can.
  launch.follows = true;
  EXPECT_NEAR(estimate(launch, h100).low, 11.98e-6, 1e-9);
  EXPECT_NEAR(estimate(launch, h100).floor, 10.68e-6, 1e-9);
  launch.early = true;
  EXPECT_NEAR(estimate(launch, h100).low, 11.87e-6, 1e-9);
  EXPECT_NEAR(estimate(launch, h100).floor, 10.57e-6, 1e-9);
  const Card &a100 = findCard("a100");
  EXPECT_EQ(a100.earlyLaunch, a100.launch);
  launch.early = false;
  // Eight blocks on eight SMs read L2 no faster than those can.
  launch.blocks = launch.working = launch.ran = 8;
  EXPECT_NEAR(estimate(launch, h100).busy[size_t(Resource::L2)],
              86e6 / (8 * 64 * 1.98e9), 1e-9);
  // A long chain in one block.
  launch.longestPath = 1.98e6;
  EXPECT_EQ(estimate(launch, h100).binding, Resource::Latency);
}

TEST(Profile, ReadsPtxas) {
  std::map<std::string, Assembled> found = readAssembled(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'a_b' for 'sm_90'\n"
      "ptxas info    : Function properties for a_b\n"
      "    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 64 bytes smem\n"
      "ptxas info    : Compiling entry function 'c' for 'sm_90'\n"
      "ptxas info    : Used 255 registers, 360 bytes cmem[0]\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found["a_b"].registers, 40u);
  EXPECT_EQ(found["a_b"].spilledBytes, 12u);
  EXPECT_EQ(found["c"].registers, 255u);
}

TEST(Profile, UnknownCard) {
  try {
    findCard("h1000");
    FAIL();
  } catch (const kvc::rt::Failure &failure) {
    EXPECT_STREQ(failure.what(),
                 "card must be one of h100, h200, a100, got 'h1000'");
  }
}

} // namespace
