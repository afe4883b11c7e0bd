//===- MachineTest.cpp - lanes, warps, memory, and what is refused --------===//

#include "test/ptx/Kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace kvc::test;
using testing::HasSubstr;

namespace {

std::string resultOf(const char *register32) {
  return std::string(" cvt.u64.u32 %d2, ") + register32 + ";";
}

TEST(PTXMachine, LanesThatPartMeetAgain) {
  // Lane i adds up 1 to i in a loop of its own length, then all shuffle.
  std::vector<int64_t> sums =
      runKernel("mov.b32 %r1, 0; mov.b32 %r2, 0;\n"
                "$loop:\nsetp.ge.s32 %p1, %r1, %r0;\n@%p1 bra $out;\n"
                "add.s32 %r1, %r1, 1; add.s32 %r2, %r2, %r1;\nbra.uni $loop;\n"
                "$out:\nshfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;" +
                resultOf("%r3"));
  for (int64_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(sums[lane], (lane ^ 1) * ((lane ^ 1) + 1) / 2);
}

TEST(PTXMachine, LanesThatReturnAreGone) {
  EXPECT_EQ(
      runKernel("setp.lt.s32 %p1, %r0, 31;\n@%p1 bra $in;\n"
                "st.global.b64 [%d1], 7; ret;\n$in:\nmov.b64 %d2, 5;")[31],
      7);
}

TEST(PTXMachine, KernelsThatWaitDoNothingBefore) {
  const std::string wait =
      "griddepcontrol.wait; griddepcontrol.launch_dependents;";
  EXPECT_EQ(runKernel("add.s32 %r1, %r0, 1;" + wait + resultOf("%r1"))[31], 32);
  for (const char *early :
       {"ld.global.b64 %d2, [%d1];", "st.global.b64 [%d1], 7;",
        "red.global.add.u32 [%d1], 1;",
        "mov.b32 %r1, shared; cp.async.ca.shared.global [%r1], [%d1], 4;"})
    EXPECT_THAT(complaint(early + wait),
                HasSubstr("must not use global memory before "
                          "griddepcontrol.wait"));
  // One of its lanes.
  EXPECT_THAT(complaint("setp.lt.s32 %p1, %r0, 31;\n@%p1 bra $wait;\n"
                        "ld.global.b64 %d2, [%d1];\n$wait:\n" +
                        wait),
              HasSubstr("thread 31 must not use global memory"));
  EXPECT_THAT(complaint("setp.lt.s32 %p1, %r0, 4;\n@%p1 bra $wait;\nret;\n"
                        "$wait:\n" +
                        wait),
              HasSubstr("lanes 0xfffffff0 must not end before "
                        "griddepcontrol.wait"));
}

TEST(PTXMachine, LaunchesGiveSharedMemory) {
  kvc::ptx::Program program = kvc::ptx::parse(
      ".extern .shared .align 16 .b8 given[];\n"
      ".visible .entry kernel()\n{\n.reg .b32 %r<3>;\n"
      "mov.u32 %r0, %tid.x; mov.b32 %r1, given; mad.lo.s32 %r1, %r0, 4, %r1;\n"
      "st.shared.b32 [%r1], %r0; ret;\n}\n");
  auto complaint = [&](uint32_t bytes) -> std::string {
    try {
      kvc::ptx::LaunchShape shape{{1, 1, 1}, 32, false, bytes};
      kvc::ptx::run(program.kernels.at("kernel"), shape, {},
                    kvc::ptx::GlobalView({}), 1, 0);
    } catch (const kvc::rt::Failure &failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(128), "");
  EXPECT_THAT(complaint(124), HasSubstr("shared memory has 124 bytes"));
  EXPECT_THAT(complaint(0), HasSubstr("shared memory has 0 bytes"));
  EXPECT_THAT(complaint(300 << 10),
              HasSubstr("a block has at most 232448 bytes of shared memory, "
                        "kernel 'kernel' has 0 and its launch gives 307200"));
}

TEST(PTXMachine, Shuffles) {
  auto lanes = [](const std::string &way) {
    return runKernel("shfl.sync." + way + ", -1;" + resultOf("%r1"));
  };
  std::vector<int64_t> up = lanes("up.b32 %r1, %r0, 4, 0"),
                       down = lanes("down.b32 %r1, %r0, 4, 31"),
                       index = lanes("idx.b32 %r1, %r0, 9, 31"),
                       // Segments of eight lanes.
      eights = lanes("down.b32 %r1, %r0, 4, 0x181f");
  for (int64_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(up[lane], lane < 4 ? lane : lane - 4);
    EXPECT_EQ(down[lane], lane > 27 ? lane : lane + 4);
    EXPECT_EQ(index[lane], 9);
    EXPECT_EQ(eights[lane], lane % 8 > 3 ? lane : lane + 4);
  }
}

TEST(PTXMachine, Votes) {
  std::string third = "rem.u32 %r1, %r0, 3; setp.eq.s32 %p1, %r1, 0; ";
  EXPECT_EQ(runKernel(third + "vote.sync.ballot.b32 %r2, %p1, -1;" +
                      resultOf("%r2"))[5],
            0x49249249);
  EXPECT_EQ(runKernel(third + "vote.sync.ballot.b32 %r2, !%p1, -1;" +
                      resultOf("%r2"))[5],
            0xb6db6db6);
  EXPECT_EQ(runKernel(third + "vote.sync.any.pred %p2, %p1, -1;"
                              "selp.b64 %d2, 1, 0, %p2;")[1],
            1);
  EXPECT_EQ(runKernel(third + "vote.sync.all.pred %p2, %p1, -1;"
                              "selp.b64 %d2, 1, 0, %p2;")[0],
            0);
}

TEST(PTXMachine, AddsUpLanes) {
  std::vector<int64_t> sums =
      runKernel("sub.s32 %r1, %r0, 40; redux.sync.add.s32 %r2, %r1, -1;" +
                resultOf("%r2"));
  // 0 to 31, and -40 in each: 32 bits.
  EXPECT_EQ(sums, std::vector<int64_t>(32, uint32_t(496 - 1280)));
  EXPECT_THAT(complaint("redux.sync.add.s32 %r1, %r0, 3;"),
              HasSubstr("must name every lane"));
}

TEST(PTXMachine, MultipliesMatrices) {
  // All of A and B are 1 in bf16, C is 0.5: every sum is 16.5.
  EXPECT_EQ(
      runKernel("mov.b32 %r1, 0x3f803f80;\n"
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32\n"
                "{%r4, %r5, %r6, %r7}, {%r1, %r1, %r1, %r1}, {%r1, %r1},\n"
                "{0f3F000000, 0f3F000000, 0f3F000000, 0f3F000000};" +
                resultOf("%r6")),
      std::vector<int64_t>(32, 0x41840000));
}

// Row i of matrix m is in lane 8 m + i's 16 bytes: halves 0 to 7 hold 8 (8 m + i) + 0 to
// 7. Matrices come in the order of their lanes.
TEST(PTXMachine, LoadsMatrices) {
  const char *rows = "mov.u32 %r1, shared; mad.lo.s32 %r1, %r0, 16, %r1;\n"
                     "mul.lo.s32 %r2, %r0, 0x00080008;\n"
                     "add.s32 %r3, %r2, 0x00010000; add.s32 %r4, %r2, "
                     "0x00030002; add.s32 %r5, %r2, 0x00050004; add.s32 %r6, "
                     "%r2, 0x00070006;\n"
                     "st.shared.v4.b32 [%r1], {%r3, %r4, %r5, %r6};\n"
                     "bar.warp.sync -1;\n";
  auto loaded = [&](const std::string &load, const char *result) {
    return runKernel(rows + load + resultOf(result));
  };
  const std::string four = " {%r7, %r8, %r9, %r10}, [%r1];";
  const char *results[] = {"%r7", "%r8", "%r9", "%r10"};
  for (int64_t m = 0; m < 4; ++m) {
    auto plain =
        loaded("ldmatrix.sync.aligned.m8n8.x4.shared.b16" + four, results[m]);
    auto turned = loaded(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" + four, results[m]);
    for (int64_t lane = 0; lane < 32; ++lane) {
      int64_t first = 64 * m + 8 * (lane / 4) + 2 * (lane % 4);
      EXPECT_EQ(plain[lane], first | (first + 1) << 16);
      int64_t above = 64 * m + 8 * (2 * (lane % 4)) + lane / 4;
      EXPECT_EQ(turned[lane], above | (above + 8) << 16);
    }
  }
  auto one =
      loaded("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r1];", "%r7");
  EXPECT_EQ(one[5], 8 + 2 | (8 + 3) << 16);
}

// Thread i writes word i; thread i reads word (i + 32) % 64 of the other warp.
const char *exchange[] = {"mov.u32 %r1, shared; mad.lo.s32 %r2, %r0, 4, %r1;"
                          "st.shared.b32 [%r2], %r0;\n",
                          "xor.b32 %r3, %r0, 32; mad.lo.s32 %r2, %r3, 4, %r1;"
                          "ld.shared.b32 %r4, [%r2]; cvt.u64.u32 %d2, %r4;"};

TEST(PTXMachine, WarpsMeetAtBarriers) {
  for (uint64_t seed : {0, 1, 2}) {
    std::vector<int64_t> got = runKernel(
        exchange[0] + std::string("bar.sync 0;\n") + exchange[1], 64, seed);
    for (int64_t thread = 0; thread < 64; ++thread)
      EXPECT_EQ(got[thread], thread ^ 32);
  }
}

TEST(PTXMachine, FindsRaces) {
  EXPECT_THAT(complaint(exchange[0] + std::string(exchange[1]), 64),
              HasSubstr("thread 32 overwrites what is read by thread 0"));
  // Within a warp a bar.warp.sync is enough, and is needed.
  const char *rotate = "xor.b32 %r3, %r0, 1; mad.lo.s32 %r2, %r3, 4, %r1;"
                       "ld.shared.b32 %r4, [%r2];";
  EXPECT_THAT(complaint(exchange[0] + std::string(rotate)),
              HasSubstr("thread 0 reads what is written by thread 1"));
  EXPECT_EQ(complaint(exchange[0] + std::string("bar.warp.sync -1;") + rotate),
            "");
  EXPECT_THAT(complaint("mov.u32 %r1, shared; st.shared.b32 [%r1], %r0;"),
              HasSubstr("overwrites what is written by thread"));
  // All write the same.
  EXPECT_EQ(complaint("mov.u32 %r1, shared; st.shared.b32 [%r1], 3;", 64), "");
  // A reader, then a writer of the other warp.
  EXPECT_THAT(complaint("mov.u32 %r1, shared; ld.shared.b32 %r2, [%r1];"
                        "setp.eq.s32 %p1, %r0, 40;"
                        "@%p1 st.shared.b32 [%r1], 3;",
                        64),
              HasSubstr("overwrites what is read by thread"));
}

TEST(PTXMachine, Atomics) {
  std::vector<int64_t> got =
      runKernel("mov.u32 %r1, shared; setp.eq.s32 %p1, %r0, 0;"
                "@%p1 st.shared.b32 [%r1], 100;\nbar.sync 0;\n"
                "atom.shared.add.u32 %r2, [%r1], 2;\nbar.sync 0;\n"
                "ld.shared.b32 %r3, [%r1]; sub.s32 %r4, %r3, %r2;" +
                    resultOf("%r4"),
                64);
  std::vector<int64_t> left;
  for (int64_t i = 64; i; --i)
    left.push_back(2 * i);
  EXPECT_EQ(got, left); // 228 at last; thread 0 found 100, thread 63 found 226
  EXPECT_THAT(complaint("mov.u32 %r1, shared; st.shared.b32 [%r1], 1;"
                        "atom.shared.add.u32 %r2, [%r1], 1;"),
              HasSubstr("changes what is written by"));
  EXPECT_THAT(complaint("mov.u32 %r1, shared; ld.shared.b32 %r2, [%r1];"
                        "atom.shared.add.u32 %r2, [%r1], 1;"),
              HasSubstr("changes what is read by thread 31 without a barrier "
                        "between them"));
}

TEST(PTXMachine, SharedMemoryBeginsAsNaN) {
  EXPECT_EQ(runKernel("mov.u32 %r1, shared; ld.shared.b32 %r2, [%r1+1020];" +
                      resultOf("%r2"))[0],
            0xffffffff);
}

// Thread i writes 100 + i, and begins to copy it to word i of shared memory.
const char *const copy[] = {
    "mov.u32 %r1, shared; add.s32 %r3, %r0, 100; st.global.b32 [%d1], %r3;"
    "mad.lo.s32 %r2, %r0, 4, %r1; cp.async.ca.shared.global [%r2], [%d1], 4;",
    "ld.shared.b32 %r4, [%r2]; cvt.u64.u32 %d2, %r4;"};

TEST(PTXMachine, CopiesLandWhenTheyAreWaitedFor) {
  auto copied = [](const std::string &between, const char *from = copy[0]) {
    return runKernel(from + between + copy[1])[5];
  };
  const int64_t nothing = 0xffffffff;
  EXPECT_EQ(copied("cp.async.wait_all;"), 105);
  EXPECT_EQ(copied("cp.async.commit_group; cp.async.wait_group 0;"), 105);
  // Whoever does not wait, or for another group, finds NaN.
  EXPECT_EQ(copied(""), nothing);
  EXPECT_EQ(copied("cp.async.commit_group;"), nothing);
  EXPECT_EQ(copied("cp.async.wait_group 0;"), nothing);
  EXPECT_EQ(copied("cp.async.commit_group; cp.async.wait_group 1;"), nothing);
  EXPECT_EQ(copied("cp.async.commit_group; cp.async.commit_group;"
                   "cp.async.wait_group 1;"),
            105);
  // What the source is after the copy began is nobody's business.
  EXPECT_EQ(copied("st.global.b32 [%d1], 7; cp.async.wait_all;"), 105);
}

TEST(PTXMachine, CopiesRaceLikeStores) {
  std::string other = "xor.b32 %r5, %r0, 32; mad.lo.s32 %r2, %r5, 4, %r1;";
  std::string wait = "cp.async.wait_all;";
  EXPECT_THAT(complaint(copy[0] + wait + other + copy[1], 64),
              HasSubstr("thread 32 overwrites what is read by thread 0"));
  EXPECT_EQ(complaint(copy[0] + wait + "bar.sync 0;" + other + copy[1], 64),
            "");
  // A barrier in front of the wait orders nothing.
  EXPECT_THAT(
      complaint(copy[0] + std::string("bar.sync 0;") + wait + other + copy[1],
                64),
      HasSubstr("overwrites what is read by"));
}

TEST(PTXMachine, SizesOfCopiesAreChecked) {
  EXPECT_THAT(complaint("mov.u32 %r1, shared;"
                        "cp.async.cg.shared.global [%r1], [%d0], 8;"),
              HasSubstr("must copy 16 bytes, got 8"));
  EXPECT_THAT(complaint("mov.u32 %r1, shared;"
                        "cp.async.ca.shared.global [%r1], [%d0], 2;"),
              HasSubstr("must copy 4, 8 or 16 bytes, got 2"));
  EXPECT_THAT(complaint("mov.u32 %r1, shared;"
                        "cp.async.ca.shared.global [%r1+1020], [%d0], 8;"),
              HasSubstr("a shared address must be a multiple of 8, got 1020"));
  EXPECT_THAT(complaint("mov.u32 %r1, shared;"
                        "cp.async.ca.shared.global [%r1], [%d0+256], 8;"),
              HasSubstr("an allocation has 256 bytes"));
}

TEST(PTXMachine, AddressesAreChecked) {
  EXPECT_THAT(complaint("ld.global.b32 %r1, [%d0+256];"),
              HasSubstr("an allocation has 256 bytes, got an access of 4 at "
                        "256"));
  EXPECT_THAT(complaint("ld.global.b64 %d3, [%d0+-8];"),
              HasSubstr("got an access of 8 at -8"));
  EXPECT_THAT(complaint("ld.global.b64 %d3, [%d0+4];"),
              HasSubstr("a global address must be a multiple of 8"));
  EXPECT_THAT(complaint("mov.u32 %r1, shared; st.shared.b32 [%r1+1024], 1;"),
              HasSubstr("shared memory has 1024 bytes, got an access of 4 at "
                        "1024"));
  EXPECT_THAT(complaint("mov.u32 %r1, shared;"
                        "ld.shared.v2.b32 {%r2, %r3}, [%r1+4];"),
              HasSubstr("a shared address must be a multiple of 8, got 4"));
  EXPECT_THAT(complaint("ld.param.b64 %d3, [results+4];"),
              HasSubstr("parameters have 8 bytes, got 8 at 4"));
}

TEST(PTXMachine, WhatAWarpDoesTogetherNeedsTheWarp) {
  std::string half = "setp.lt.s32 %p1, %r0, 16;\n@%p1 bra $out;\n";
  EXPECT_THAT(
      complaint(half + "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\n$out:"),
      HasSubstr("all lanes of the warp must come together, got 0xffff0000 of "
                "0xffffffff"));
  EXPECT_THAT(complaint(half + "bar.sync 0;\n$out:"),
              HasSubstr("all lanes of the warp must come together"));
  EXPECT_THAT(complaint("vote.sync.ballot.b32 %r1, %p1, 3;"),
              HasSubstr("the member mask must name every lane"));
  EXPECT_THAT(
      complaint("setp.lt.s32 %p1, %r0, 32;\n@%p1 ret;\nbar.sync 0;", 64),
      HasSubstr("1 of 2 warps wait at a barrier, the others have "
                "ended"));
  // The second warp has eight lanes.
  EXPECT_THAT(complaint("shfl.sync.idx.b32 %r1, %r0, 9, 31, -1;", 40),
              HasSubstr("lane 0 reads lane 9, which does not run"));
  EXPECT_THAT(complaint("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\n"
                        "{%r4, %r5, %r6, %r7}, {%r1, %r1, %r1, %r1},\n"
                        "{%r1, %r1}, {%r1, %r1, %r1, %r1};",
                        40),
              HasSubstr("all 32 lanes must run, got 0xff"));
}

TEST(PTXMachine, SaysWhere) {
  EXPECT_EQ(
      complaint("\n\nbar.sync 1;"),
      "kernel 'kernel', block (0, 0, 0), warp 0, PTX line 12, 'bar.sync': "
      "the barrier of the block must be 0, got 1");
}

// Two teams of two warps. What a thread writes another one of its team reads, 32 further
// on or back.
static std::string teams(const std::string &between, int apart = 32) {
  return "mov.u32 %r1, shared; mad.lo.s32 %r2, %r0, 4, %r1; shr.u32 %r3, %r0, "
         "6;"
         "add.s32 %r3, %r3, 1; add.s32 %r6, %r0, 100; st.shared.b32 [%r2], "
         "%r6;\n" +
         between + "xor.b32 %r5, %r0, " + std::to_string(apart) +
         "; mad.lo.s32 %r2, %r5, 4, %r1; ld.shared.b32 %r4, [%r2];";
}

TEST(PTXMachine, TeamsHaveBarriersOfTheirOwn) {
  const std::string own = "bar.sync %r3, 64;\n";
  EXPECT_EQ(runKernel(teams(own) + resultOf("%r4"), 128)[5], 137);
  EXPECT_THAT(complaint(teams(""), 128), HasSubstr("race for shared memory"));
  // It orders nothing between teams, and what the block's barrier orders is ordered.
  EXPECT_THAT(complaint(teams(own, 64), 128),
              HasSubstr("race for shared memory"));
  EXPECT_EQ(complaint(teams("bar.sync 0;\n", 64), 128), "");
  EXPECT_EQ(complaint(teams(own + "bar.sync 0;\n" + own, 64), 128), "");
  // A team passes as many as it likes while another one does something else.
  std::string apart = "setp.gt.s32 %p1, %r0, 63;\n@%p1 bra $others;\n" + own +
                      own + own + "bra $all;\n$others:\n" + own + "$all:\n";
  EXPECT_EQ(complaint(teams(apart), 128), "");
  // Who writes again waits for who reads.
  std::string again = "mad.lo.s32 %r2, %r0, 4, %r1; st.shared.b32 [%r2], 3;";
  EXPECT_THAT(complaint(teams(own) + again, 128),
              HasSubstr("race for shared memory"));
  EXPECT_EQ(complaint(teams(own) + own + again, 128), "");
}

TEST(PTXMachine, TeamsAreOfWholeWarpsInOrder) {
  auto refused = [](const std::string &barrier) {
    return complaint(teams(barrier), 128);
  };
  EXPECT_THAT(refused("bar.sync %r3, 48;\n"),
              HasSubstr("teams must be of whole warps and divide the block's "
                        "128 threads, got 48 threads"));
  EXPECT_THAT(refused("bar.sync %r3, 96;\n"), HasSubstr("got 96 threads"));
  EXPECT_THAT(refused("bar.sync 1, 64;\n"),
              HasSubstr("the barrier of the warp's team must be 2 and at most "
                        "15, got 1"));
  EXPECT_THAT(refused("bar.sync 0, 128;\n"),
              HasSubstr("must be 1 and at most 15, got 0"));
  EXPECT_THAT(refused("bar.sync %r3, 64;\nbar.sync 1, 128;\n"),
              HasSubstr("all teams must be of as many threads, got 64 and "
                        "128"));
  EXPECT_THAT(
      refused("setp.gt.s32 %p1, %r0, 31;\n@%p1 bra $all;\nbar.sync %r3, "
              "64;\n$all:\nbar.sync 0;\n"),
      HasSubstr("of 4 warps 3 wait for the block and 1 for others of their "
                "team"));
}

TEST(PTXMachine, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(complaint("sin.approx.f32 %r1, %r2;"),
            "PTX line 10: the machine does not know the opcode "
            "'sin.approx.f32'");
  for (const char *opcode : {"add.rz.f32",
                             "add.f64",
                             "lg2.approx.ftz.f32",
                             "setp.lt.and.s32",
                             "ld.global.ca.b32",
                             "ld.local.b32",
                             "cvt.sat.s32.f32",
                             "shfl.bfly.b32",
                             "min.ftz.f32",
                             "mov.v2.b32",
                             "selp.x.b32",
                             "add",
                             "cvt.f32",
                             "atom",
                             "mul.wide.s64",
                             "bar.red",
                             "atom.global.cas.b32",
                             "ld.v2.v4.b32",
                             "ldmatrix.sync.aligned.m8n8.x3.shared.b16",
                             "ldmatrix.sync.aligned.m8n8.x4.shared.b8",
                             "cvta.shared.u64"})
    EXPECT_THAT(complaint(std::string(opcode) + " %r1, %r2, %r3;"),
                HasSubstr("does not know the opcode"))
        << opcode;
}

TEST(PTXMachine, RefusesWhatIsNoPTX) {
  EXPECT_THAT(complaint("add.s32 %r1, %r2;"),
              HasSubstr("'add.s32' has 1 results and 2 operands, got 1 and 1"));
  EXPECT_THAT(complaint("ld.global.v2.b32 %r1, [%d0];"),
              HasSubstr("has 2 results and 1 operands, got 1 and 1"));
  EXPECT_THAT(complaint("add.s32 %r1, %r2, %r99;"),
              HasSubstr("unknown operand '%r99'"));
  EXPECT_THAT(complaint("add.s32 7, %r2, %r3;"),
              HasSubstr("the result of 'add.s32' must be a register"));
  EXPECT_THAT(complaint("and.pred %p1, !%p2, %p3;"),
              HasSubstr("'and.pred' has no negated operand"));
  EXPECT_THAT(complaint("bra $nowhere;"),
              HasSubstr("branches to '$nowhere', which is no label"));
  EXPECT_THAT(complaint("$a:\n$a:"), HasSubstr("a label must stand once"));
  EXPECT_THAT(complaint(".local .b8 depot[8];"),
              HasSubstr("unknown directive '.local'"));
  EXPECT_THAT(complaint(".reg .b32 %x<70000>;"),
              HasSubstr("a kernel has at most 65536 registers"));
  EXPECT_THAT(complaint(".shared .b8 more[240000];"),
              HasSubstr("at most 232448 bytes of shared memory"));
  EXPECT_THAT(complaint(".shared .align 3 .b8 odd[3];"),
              HasSubstr("an alignment must be a power of 2 up to 1024, got 3"));
  EXPECT_THAT(complaint("add.s32 %r1, %r2, 3x;"),
              HasSubstr("a number expected, got '3x'"));
  EXPECT_THAT(complaint("bra.uni $l;\n$l:", 2000),
              HasSubstr("has blocks of 1 to 1024 threads, got 2000"));
  auto parsed = [](const char *text) -> std::string {
    try {
      kvc::ptx::parse(text);
    } catch (const kvc::rt::Failure &failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(parsed(""), "");
  EXPECT_EQ(parsed("\nhello"), "PTX line 2: unknown directive 'hello'");
  EXPECT_EQ(parsed(".address_size 32"),
            "PTX line 1: addresses must have 64 bits");
  EXPECT_THAT(parsed(".entry k() { ret;"),
              HasSubstr("must not end inside of a statement"));
  EXPECT_THAT(parsed(".entry k() { }"), HasSubstr("must end in ret or bra"));
  EXPECT_THAT(parsed(".extern .func f"),
              HasSubstr("nothing can be linked to the program, got .extern"));
  EXPECT_THAT(parsed(".extern .shared .align 16 .b8 m[];"
                     ".entry k() { .reg .b32 %r<2>; .shared .b8 own[4];"
                     "mov.b32 %r1, m; ret; }"),
              HasSubstr("what a launch gives must be a kernel's only shared "
                        "memory, 'k' has 4 bytes of its own"));
  EXPECT_THAT(parsed(".extern .shared .align 16 .b8 m[4];"),
              HasSubstr("']' expected, got '4'"));
  EXPECT_THAT(parsed(".entry k(.param .b8 a[40000]) { ret; }"),
              HasSubstr("a kernel has 1 to 32764 bytes of parameters"));
}

} // namespace
