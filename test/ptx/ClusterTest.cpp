//===- ClusterTest.cpp - blocks that wait for each other ------------------===//

#include "test/ptx/Kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace kvc;
using testing::HasSubstr;

namespace {

const std::string arrive = "barrier.cluster.arrive.aligned;\n",
                  await = "barrier.cluster.wait.aligned;\n";

/// The results of 6 blocks of 64 threads in clusters of `cluster`; `body` has the block in
/// %r1, the thread in %r0, and the address of its block's results in %d1, which are
/// `body`'s to write.
std::vector<int64_t> run(const std::string &body, uint32_t cluster,
                         uint64_t seed = 0) {
  constexpr uint32_t blocks = 6, threads = 64;
  ptx::Program program = ptx::parse(
      ".visible .entry kernel(.param .u64 .ptr .align 1 results)\n{\n"
      ".reg .pred %p<8>; .reg .b32 %r<8>; .reg .b64 %d<8>;\n"
      ".shared .align 16 .b8 shared[1024];\n"
      "ld.param.b64 %d0, [results]; mov.u32 %r0, %tid.x; mov.u32 %r1, "
      "%ctaid.x;\n"
      "mul.wide.u32 %d1, %r1, 8; add.s64 %d1, %d0, %d1;\n" +
      body + "ret;\n}\n");
  ptx::GlobalMemory memory;
  std::vector<int64_t> values(2 * blocks);
  void *results = memory.allocate(values.size() * 8);
  std::memset(results, 0, values.size() * 8);
  std::byte argument[8];
  std::memcpy(argument, &results, 8);
  ptx::LaunchShape shape{{blocks, 1, 1}, threads};
  shape.cluster = cluster;
  ptx::run(program.kernels.at("kernel"), shape, argument, memory.view(), 1,
           seed);
  std::memcpy(values.data(), results, values.size() * 8);
  return values;
}

std::string complaint(const std::string &body, uint32_t cluster) {
  try {
    run(body, cluster);
  } catch (const rt::Failure &failure) {
    return failure.what();
  }
  return "";
}

/// Each thread adds 1 to its block's number; then that of the cluster's other end (block
/// 0 and 2 of 0 to 2, say) is written behind all numbers.
const std::string exchange =
    "red.global.add.u64 [%d1], 1;\n" + arrive + await +
    "div.u32 %r2, %r1, 3; mad.lo.s32 %r2, %r2, 6, 2; sub.s32 %r2, %r2, %r1;\n"
    "mul.wide.u32 %d2, %r2, 8; add.s64 %d2, %d0, %d2; ld.global.b64 %d3, "
    "[%d2];\n"
    "st.global.b64 [%d1+48], %d3;\n";

} // namespace

TEST(PTXCluster, BlocksSeeWhatOthersHaveWritten) {
  for (uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(run(exchange, 3, seed), std::vector<int64_t>(12, 64));
  // Without a cluster the first block runs to its end before the third begins.
  EXPECT_EQ(run(exchange, 1)[6], 0);
}

TEST(PTXCluster, OrdersSharedMemory) {
  const std::string body =
      "mov.b32 %r2, shared; mad.lo.s32 %r3, %r0, 4, %r2;\n"
      "st.shared.b32 [%r3], %r0;\n" +
      arrive + await +
      "sub.s32 %r4, 63, %r0; mad.lo.s32 %r3, %r4, 4, %r2;\n"
      "ld.shared.b32 %r5, [%r3];\n";
  EXPECT_EQ(complaint(body, 2), "");
  EXPECT_THAT(complaint(body.substr(0, body.find(arrive)) +
                            body.substr(body.find("sub.s32")),
                        2),
              HasSubstr("shared memory"));
}

TEST(PTXCluster, AllMustCome) {
  EXPECT_THAT(complaint(await, 2),
              HasSubstr("must arrive before it waits for its cluster"));
  EXPECT_THAT(complaint(arrive + arrive + await, 2),
              HasSubstr("must wait for its cluster before it arrives again"));
  const std::string even = "and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0;\n"
                           "@%p1 bra $out;\n",
                    first = "setp.lt.s32 %p1, %r0, 32;\n@%p1 bra $out;\n",
                    out = "$out:\n";
  EXPECT_THAT(complaint(even + arrive + await + out, 2),
              HasSubstr("cluster from block (0, 0, 0) on: 1 of 2 blocks wait "
                        "for the cluster, the others have ended"));
  EXPECT_THAT(complaint(first + arrive + await + out, 2),
              HasSubstr("1 of 2 warps wait at a barrier, the others have "
                        "ended"));
  EXPECT_THAT(complaint(first + arrive + await + "bra.uni $end;\n" + out +
                            "bar.sync 0;\n$end:\n",
                        2),
              HasSubstr("1 of 2 warps wait for the cluster, the others for "
                        "the block"));
  EXPECT_THAT(complaint("setp.lt.s32 %p1, %r0, 16;\n@%p1 bra $out;\n" + arrive +
                            await + out,
                        2),
              HasSubstr("all lanes of the warp must come together"));
}

TEST(PTXCluster, IsAPartOfTheGrid) {
  EXPECT_THAT(complaint("", 4), HasSubstr("must be 1 to 16 blocks and divide "
                                          "the grid's 6, got 4"));
  EXPECT_THAT(complaint("", 0), HasSubstr("got 0"));
}

TEST(PTXCluster, OrderIsKnown) {
  EXPECT_EQ(complaint("barrier.cluster.arrive.release.aligned;\n"
                      "barrier.cluster.wait.acquire.aligned;\n",
                      2),
            "");
  EXPECT_THAT(complaint("barrier.cluster.arrive.relaxed.aligned;\n" + await, 2),
              HasSubstr("barrier.cluster.arrive.relaxed.aligned"));
}
