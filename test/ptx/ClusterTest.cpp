//===- ClusterTest.cpp - blocks that wait for each other ------------------===//

#include "test/ptx/Kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace kvc;
using testing::HasSubstr;

namespace {

constexpr uint32_t blocks = 6, threads = 64;
const std::string arrive = "barrier.cluster.arrive.aligned;\n",
                  await = "barrier.cluster.wait.aligned;\n",
                  meet = arrive + await;

/// 6 blocks of 64 threads along x in clusters of `cluster`. `body` has the thread in %r0, the
/// block in %r1, in %r2 the address of the thread's word of shared memory, in %d0 that of the
/// results, two numbers a block, and in %d1 that of its block's first one.
std::vector<int64_t> run(const std::string &body, const std::string &cluster,
                         uint64_t seed = 0) {
  return test::runText(
      ".visible .entry kernel(.param .u64 .ptr .align 1 results)\n"
      ".explicitcluster\n.reqnctapercluster " +
          cluster +
          "\n{\n"
          ".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<8>;\n"
          ".shared .align 16 .b8 shared[1024];\n"
          "ld.param.b64 %d0, [results]; mov.u32 %r0, %tid.x; mov.u32 %r1, "
          "%ctaid.x;\n"
          "mov.b32 %r2, shared; mad.lo.s32 %r2, %r0, 4, %r2;\n"
          "mul.wide.u32 %d1, %r1, 8; add.s64 %d1, %d0, %d1;\n" +
          body + "ret;\n}\n",
      {{blocks, 1, 1}, threads}, std::vector<int64_t>(2 * blocks), seed);
}

std::string complaint(const std::string &body,
                      const std::string &cluster = "2, 1, 1") {
  return test::complaintOf([&] { run(body, cluster); });
}

/// Each thread adds 1 to its block's number; then that of the cluster's other end (block
/// 0 and 2 of 0 to 2, say) is written behind all numbers.
const std::string exchange =
    "red.global.add.u64 [%d1], 1;\n" + meet +
    "div.u32 %r4, %r1, 3; mad.lo.s32 %r4, %r4, 6, 2; sub.s32 %r4, %r4, %r1;\n"
    "mul.wide.u32 %d2, %r4, 8; add.s64 %d2, %d0, %d2; ld.global.b64 %d3, "
    "[%d2];\n"
    "st.global.b64 [%d1+48], %d3;\n";

/// Every thread of an odd block writes 100 times its block and its own number to the block
/// in front of it.
const std::string put =
    "and.b32 %r4, %r1, 1; setp.eq.s32 %p0, %r4, 0;\n"
    "mapa.shared::cluster.u32 %r5, %r2, 0; mad.lo.s32 %r6, %r1, 100, %r0;\n"
    "@%p0 bra $done;\nst.shared::cluster.b32 [%r5], %r6;\n$done:\n";
/// The even one's first thread takes what the 64th wrote.
const std::string take =
    "setp.ne.s32 %p1, %r4, 0; @%p1 bra $out; setp.ne.s32 %p1, %r0, 0;\n"
    "@%p1 bra $out;\nld.shared.b32 %r7, [%r2+252]; cvt.u64.u32 %d3, %r7;\n"
    "st.global.b64 [%d1], %d3;\n$out:\n";

} // namespace

TEST(PTXCluster, BlocksSeeWhatOthersHaveWritten) {
  for (uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(run(exchange, "3, 1, 1", seed), std::vector<int64_t>(12, 64));
  // Without a cluster the first block runs to its end before the third begins.
  EXPECT_EQ(run(exchange, "1, 1, 1")[6], 0);
}

TEST(PTXCluster, AnotherBlockWritesToSharedMemory) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<int64_t> found = run(meet + put + meet + take, "2, 1, 1", seed);
    for (int64_t block = 0; block < blocks; block += 2)
      EXPECT_EQ(found[block], (block + 1) * 100 + 63);
  }
}

TEST(PTXCluster, WhoWritesMustBeOrdered) {
  const std::string touch = "st.shared.b32 [%r2], %r0;\n";
  EXPECT_THAT(complaint(put + meet + take),
              HasSubstr("a block that has not met its cluster must not write "
                        "to the shared memory of another one"));
  EXPECT_THAT(complaint(meet + put + take + meet),
              HasSubstr("another block overwrites what thread"));
  EXPECT_THAT(complaint(meet + touch + put + meet),
              HasSubstr("another block overwrites what thread"));
  EXPECT_EQ(complaint(touch + meet + put + meet + take), "");
  // Of two blocks with different numbers, and in front of what the block itself does.
  const std::string all = "mapa.shared::cluster.u32 %r5, %r2, 2;\n"
                          "st.shared::cluster.b32 [%r5], %r1;\n";
  EXPECT_THAT(complaint(meet + all + meet, "3, 1, 1"),
              HasSubstr("other blocks write two numbers"));
  const std::string toSecond =
      "mapa.shared::cluster.u32 %r5, %r2, 1;\n"
      "setp.eq.s32 %p0, %r1, 1; @%p0 bra $own;\n"
      "st.shared::cluster.b32 [%r5], -1;\nbra.uni $end;\n$own:\n" +
      touch + "$end:\n";
  EXPECT_THAT(complaint(meet + toSecond + meet),
              HasSubstr("uses what another block writes without a barrier of "
                        "the cluster"));
}

TEST(PTXCluster, WhoIsWrittenToMustBeThere) {
  const std::string ends = "and.b32 %r4, %r1, 1; setp.eq.s32 %p0, %r4, 0;\n"
                           "@%p0 bra $out;\n";
  EXPECT_THAT(
      complaint(meet + ends +
                "mapa.shared::cluster.u32 %r5, %r2, 0;\n"
                "st.shared::cluster.b32 [%r5], %r0;\n$out:\n"),
      HasSubstr("block 0 of the cluster has ended, and its shared memory "
                "with it"));
  EXPECT_THAT(complaint(meet + "mapa.shared::cluster.u32 %r5, %r2, 2;\n"),
              HasSubstr("a block of the cluster must be below 2, got 2"));
  EXPECT_THAT(
      complaint(meet + "st.shared::cluster.b32 [%r2], %r0;\n"),
      HasSubstr("a shared address of the cluster must be made by mapa"));
  EXPECT_THAT(complaint(meet + "mapa.shared::cluster.u32 %r5, %r2, 0;\n"
                               "mapa.shared::cluster.u32 %r5, %r5, 0;\n"),
              HasSubstr("mapa takes an address of the block's own"));
  EXPECT_THAT(complaint(meet + "mapa.shared::cluster.u32 %r5, %r2, 0;\n"
                               "st.shared::cluster.b32 [%r5+1024], %r0;\n"),
              HasSubstr("shared memory has 1024 bytes"));
}

TEST(PTXCluster, OrdersTheBlockAsWell) {
  const std::string write = "st.shared.b32 [%r2], %r0;\n",
                    read = "sub.s32 %r4, 63, %r0; mov.b32 %r5, shared;\n"
                           "mad.lo.s32 %r5, %r4, 4, %r5;\n"
                           "ld.shared.b32 %r6, [%r5];\n";
  EXPECT_EQ(complaint(write + meet + read), "");
  EXPECT_THAT(complaint(write + read), HasSubstr("race for shared memory"));
}

TEST(PTXCluster, AllMustCome) {
  EXPECT_THAT(complaint(await),
              HasSubstr("must arrive before it waits for its cluster"));
  EXPECT_THAT(complaint(arrive + arrive + await),
              HasSubstr("must wait for its cluster before it arrives again"));
  EXPECT_THAT(complaint(arrive + "st.shared.b32 [%r2], %r0;\n" + await),
              HasSubstr("memory must not be touched between"));
  EXPECT_THAT(complaint(arrive + "st.global.b32 [%d1], %r0;\n" + await),
              HasSubstr("memory must not be touched between"));
  const std::string even = "and.b32 %r4, %r1, 1; setp.eq.s32 %p1, %r4, 0;\n"
                           "@%p1 bra $out;\n",
                    first = "setp.lt.s32 %p1, %r0, 32;\n@%p1 bra $out;\n",
                    out = "$out:\n";
  EXPECT_THAT(complaint(even + meet + out),
              HasSubstr("cluster from block (0, 0, 0) on: 1 of 2 blocks wait "
                        "for the cluster, the others have ended"));
  EXPECT_THAT(complaint(first + meet + out),
              HasSubstr("1 of 2 warps wait for the cluster, the others have "
                        "ended"));
  EXPECT_THAT(complaint(first + meet + "bra.uni $end;\n" + out +
                        "bar.sync 0;\n$end:\n"),
              HasSubstr("1 of 2 warps wait at a barrier, the others wait for "
                        "the cluster"));
  EXPECT_THAT(
      complaint("setp.lt.s32 %p1, %r0, 16;\n@%p1 bra $out;\n" + meet + out),
      HasSubstr("all lanes of the warp must come together"));
}

TEST(PTXCluster, IsAPartOfTheGrid) {
  EXPECT_THAT(complaint("", "4, 1, 1"),
              HasSubstr("has clusters of 4 x 1 x 1 blocks, which must divide "
                        "the grid, got 6 x 1 x 1"));
  EXPECT_THAT(complaint("", "1, 2, 1"), HasSubstr("1 x 2 x 1 blocks"));
  for (const char *cluster : {"0, 1, 1", "3, 3, 1", "1, 1, 1, 1", "-2, 1, 1",
                              "8, 2305843009213693952, 1"}) // 2^64 in all
    EXPECT_THAT(
        complaint("", cluster),
        HasSubstr("a cluster must have three dimensions and 1 to 8 blocks"));
}

TEST(PTXCluster, OrderIsKnown) {
  EXPECT_EQ(complaint("barrier.cluster.arrive.release.aligned;\n"
                      "barrier.cluster.wait.acquire.aligned;\n"),
            "");
  EXPECT_THAT(complaint("barrier.cluster.arrive.relaxed.aligned;\n" + await),
              HasSubstr("barrier.cluster.arrive.relaxed.aligned"));
}
