//===- WarpgroupTest.cpp - wgmma, by hand ---------------------------------===//

#include "test/ptx/Kernel.h"

#include "runtime/base/Half.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

using namespace kvc;
using testing::AnyOf;
using testing::HasSubstr;

namespace {

/// Where a matrix of 16-bit elements lies, [index][k]: rows of `row` bytes (16: no
/// swizzle), along K or along M and N.
struct Layout {
  uint32_t row = 128;
  bool alongK = true;
};

struct Case {
  uint32_t columns = 64;
  uint32_t steps = 1; // of 16 along K
  bool leftInRegisters = false;
  Layout left = {}, right = {};
  bool bf16 = true, adds = true;
  int signOfLeft = 1, signOfRight = 1;
};

constexpr uint32_t threads = 128, rightAt = 64 << 10, sharedBytes = 227 << 10;

float leftValue(uint32_t row, uint32_t k) {
  return float(int(row * 7 + k * 3) % 11 - 5);
}
float rightValue(uint32_t column, uint32_t k) {
  return float(int(column * 5 + k * 13) % 9 - 4);
}

/// A matrix of `extent` by `depth` in a layout, worked out from its picture in the PTX ISA.
struct Placed {
  Layout layout;
  uint32_t extent, depth;

  /// Row i of a pattern of eight has its chunks swapped by this.
  uint32_t swap(uint32_t i) const { return i % 8 * layout.row / 128; }
  uint32_t patternBytes() const { return 8 * layout.row; }
  uint32_t perRow() const { return layout.row / 2; }

  uint32_t at(uint32_t index, uint32_t k) const {
    if (layout.row == 16) { // 8 x 8 elements side by side, along K first
      uint32_t inside = layout.alongK ? index % 8 * 16 + k % 8 * 2
                                      : k % 8 * 16 + index % 8 * 2;
      return (index / 8 * (depth / 8) + k / 8) * 128 + inside;
    }
    uint32_t along = layout.alongK ? k : index;
    uint32_t across = layout.alongK ? index : k;
    uint32_t acrossAll = layout.alongK ? extent : depth;
    return along / perRow() * acrossAll * layout.row + across * layout.row +
           ((along % perRow() / 8) ^ swap(across)) * 16 + along % 8 * 2;
  }
  /// Of the 16 elements of K from `k` on, at address 0.
  uint64_t descriptor(uint32_t k) const {
    uint64_t start, leading = 1, stride;
    if (layout.row == 16) {
      start = k / 8 * 128, leading = 128, stride = depth / 8 * 128;
    } else if (layout.alongK) {
      start = k / perRow() * extent * layout.row + k % perRow() * 2;
      stride = patternBytes();
    } else {
      start = k * layout.row;
      stride = patternBytes(), leading = depth * layout.row;
    }
    uint64_t swizzle = layout.row == 16 ? 0 : 1 + (128 / layout.row) / 2;
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 |
           swizzle << 62;
  }
};

Placed leftOf(const Case &c) { return {c.left, 64, 16 * c.steps}; }
Placed rightOf(const Case &c) { return {c.right, c.columns, 16 * c.steps}; }

std::string registers(const char *name, uint32_t count) {
  std::string list;
  for (uint32_t i = 0; i < count; ++i)
    list += (i ? "," : "{") + (name + std::to_string(i));
  return list + "}";
}

/// Shared memory is copied from `image`; accumulators begin as 0.5.
std::string textOf(const Case &c) {
  std::string text =
      ".version 8.0\n.target sm_90a\n.address_size 64\n"
      ".extern .shared .align 1024 .b8 shared[];\n"
      ".visible .entry kernel(.param .u64 results, .param .u64 image, "
      ".param .u64 left)\n{\n"
      ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b32 %a<4>; .reg .b64 %d<16>;\n"
      ".reg .b32 %f<" +
      std::to_string(c.columns / 2) +
      ">;\n"
      "ld.param.b64 %d0, [results]; ld.param.b64 %d1, [image];\n"
      "ld.param.b64 %d2, [left]; mov.u32 %r0, %tid.x; mov.u32 %r1, shared;\n"
      "shl.b32 %r2, %r0, 4;\n$copy:\n"
      "cvt.u64.u32 %d3, %r2; add.s64 %d4, %d1, %d3; add.s32 %r3, %r1, %r2;\n"
      "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d4];\n"
      "st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7};\n"
      "add.s32 %r2, %r2, 2048; setp.lt.u32 %p1, %r2, 131072;\n"
      "@%p1 bra $copy;\nfence.proxy.async;\nbar.sync 0;\n"
      // The descriptors' address bits.
      "shr.u32 %r8, %r1, 4; cvt.u64.u32 %d5, %r8; setp.ne.s32 %p2, 1, " +
      std::string(c.adds ? "0" : "1") +
      ";\n"
      "mul.wide.u32 %d6, %r0, 16; add.s64 %d6, %d2, %d6;\n";
  for (uint32_t i = 0; i < c.columns / 2; ++i)
    text += "mov.b32 %f" + std::to_string(i) + ", 0f3F000000;";
  for (uint32_t step = 0; step < c.steps; ++step) {
    auto descriptor = [&](const char *to, const Placed &of, uint64_t at) {
      text += "\nmov.b64 " + std::string(to) + ", " +
              std::to_string(int64_t(of.descriptor(16 * step) + (at >> 4))) +
              "; add.s64 " + to + ", " + to + ", %d5;";
    };
    descriptor("%d7", leftOf(c), 0);
    descriptor("%d8", rightOf(c), rightAt);
    if (c.leftInRegisters)
      text += "\nld.global.v4.b32 " + registers("%a", 4) + ", [%d6+" +
              std::to_string(step * threads * 16) + "];";
    std::string type = c.bf16 ? "bf16" : "f16";
    text += "\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n" +
            std::to_string(c.columns) + "k16.f32." + type + "." + type + " " +
            registers("%f", c.columns / 2) + ", " +
            (c.leftInRegisters ? registers("%a", 4) : "%d7") + ", %d8, " +
            (step ? "1" : "%p2") + ", " + std::to_string(c.signOfLeft) + ", " +
            std::to_string(c.signOfRight) +
            (c.leftInRegisters ? ""
             : c.left.alongK   ? ", 0"
                               : ", 1") +
            (c.right.alongK ? ", 0" : ", 1") + ";";
    // A's registers are filled again.
    if (c.leftInRegisters && step + 1 < c.steps)
      text += "\nwgmma.commit_group.sync.aligned; "
              "wgmma.wait_group.sync.aligned 0;";
  }
  text += "\nwgmma.commit_group.sync.aligned;\n"
          "wgmma.wait_group.sync.aligned 0;\nmul.wide.u32 %d9, %r0, " +
          std::to_string(c.columns * 2) + "; add.s64 %d9, %d0, %d9;";
  for (uint32_t i = 0; i < c.columns / 2; ++i)
    text += "\nst.global.b32 [%d9+" + std::to_string(4 * i) + "], %f" +
            std::to_string(i) + ";";
  return text + "\nret;\n}\n";
}

struct Run {
  uint32_t threads = ::threads;
  uint64_t seed = 0;
};

/// What each thread's accumulators are.
std::vector<float> run(const Case &c, const std::string &text, Run how = {}) {
  auto bits = [&](float value) {
    return c.bf16 ? rt::toBF16(value) : rt::toF16(value);
  };
  std::vector<std::byte> image(128 << 10);
  auto put = [&](uint32_t at, float value) {
    uint16_t stored = bits(value);
    std::memcpy(&image[at], &stored, 2);
  };
  std::vector<uint16_t> left(c.steps * threads * 8);
  Placed a = leftOf(c), b = rightOf(c);
  for (uint32_t k = 0; k < 16 * c.steps; ++k) {
    for (uint32_t row = 0; row < 64; ++row) {
      if (!c.leftInRegisters)
        put(a.at(row, k), leftValue(row, k));
      // Figure "register fragment layout for matrix A" of the PTX ISA.
      uint32_t lane = row % 8 * 4 + k % 8 / 2;
      uint32_t half = (row % 16 / 8 + k % 16 / 8 * 2) * 2 + k % 2;
      left[(k / 16 * threads + row / 16 * 32 + lane) * 8 + half] =
          bits(leftValue(row, k));
    }
    for (uint32_t column = 0; column < c.columns; ++column)
      put(rightAt + b.at(column, k), rightValue(column, k));
  }
  ptx::Program program = ptx::parse(text);
  ptx::GlobalMemory memory;
  uint64_t arguments[] = {
      reinterpret_cast<uint64_t>(memory.allocate(threads * c.columns * 2)),
      reinterpret_cast<uint64_t>(memory.allocate(image.size())),
      reinterpret_cast<uint64_t>(memory.allocate(left.size() * 2))};
  std::memcpy(reinterpret_cast<void *>(arguments[1]), image.data(),
              image.size());
  std::memcpy(reinterpret_cast<void *>(arguments[2]), left.data(),
              left.size() * 2);
  ptx::run(program.kernels.at("kernel"),
           {{1, 1, 1}, how.threads, false, sharedBytes},
           std::as_bytes(std::span(arguments)), memory.view(), 1, how.seed);
  std::vector<float> results(threads * c.columns / 2);
  std::memcpy(results.data(), reinterpret_cast<void *>(arguments[0]),
              results.size() * 4);
  return results;
}

void expectProduct(const Case &c, Run how = {}) {
  std::string text = textOf(c);
  std::vector<float> results = run(c, text, how);
  for (uint32_t row = 0; row < 64; ++row)
    for (uint32_t column = 0; column < c.columns; ++column) {
      float want = c.adds ? 0.5f : 0;
      for (uint32_t k = 0; k < 16 * c.steps; ++k)
        want += float(c.signOfLeft * c.signOfRight) * leftValue(row, k) *
                rightValue(column, k);
      uint32_t thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
      uint32_t index = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
      ASSERT_EQ(results[thread * (c.columns / 2) + index], want)
          << "row " << row << ", column " << column << " of " << c.columns
          << ", rows of " << c.left.row << " and " << c.right.row
          << " bytes, along K " << c.left.alongK << " and " << c.right.alongK;
    }
}

TEST(PTXWarpgroup, MultipliesFromSharedMemory) {
  for (uint32_t columns : {8, 64, 128, 256})
    for (bool alongK : {true, false})
      expectProduct({.columns = columns, .right = {128, alongK}});
  expectProduct({.columns = 24, .left = {128, false}, .right = {128, false}});
  expectProduct({.bf16 = false});
}

TEST(PTXWarpgroup, MultipliesFromRegisters) {
  for (uint32_t columns : {8, 64, 128})
    for (bool alongK : {true, false})
      expectProduct({.columns = columns,
                     .steps = 2,
                     .leftInRegisters = true,
                     .right = {128, alongK}});
}

TEST(PTXWarpgroup, StepsAlongK) {
  // Four of 16 are a row of 128 bytes; MN-major it is two patterns a step.
  for (uint32_t steps : {2, 4})
    for (bool alongK : {true, false})
      expectProduct({.columns = 128,
                     .steps = steps,
                     .left = {128, alongK},
                     .right = {128, alongK}},
                    {.seed = 7});
}

TEST(PTXWarpgroup, Swizzles) {
  for (uint32_t row : {16, 32, 64, 128})
    for (bool alongK : {true, false})
      for (uint32_t columns : {8, 96})
        expectProduct({.columns = columns,
                       .steps = 2,
                       .left = {row, alongK},
                       .right = {row, alongK}});
}

TEST(PTXWarpgroup, AddsOrNot) {
  expectProduct({.adds = false});
  expectProduct({.steps = 2, .adds = false});
  std::string negated = textOf({.adds = false});
  negated.replace(negated.find(", %p2, 1"), 5, ", !%p2");
  EXPECT_EQ(run({}, negated), run({}, textOf({})));
}

TEST(PTXWarpgroup, Negates) {
  expectProduct({.signOfLeft = -1});
  expectProduct({.leftInRegisters = true, .signOfLeft = -1});
  expectProduct({.signOfRight = -1});
  expectProduct({.signOfLeft = -1, .signOfRight = -1});
}

//===----------------------------------------------------------------------===//
// What it reports
//===----------------------------------------------------------------------===//

std::string replaced(std::string text, const std::string &from,
                     const std::string &to) {
  size_t at = text.rfind(from);
  if (at == std::string::npos)
    return "nothing to replace";
  return text.replace(at, from.size(), to);
}

/// What the machine says of a kernel that has `to` for the last `from`.
std::string complaint(const std::string &from, const std::string &to,
                      const Case &c = {.columns = 8}, Run how = {}) {
  return test::complaintOf([&] { run(c, replaced(textOf(c), from, to), how); });
}

const std::string fence = "wgmma.fence.sync.aligned;",
                  commit = "wgmma.commit_group.sync.aligned;",
                  wait = "wgmma.wait_group.sync.aligned 0;",
                  proxy = "fence.proxy.async;\n", barrier = "bar.sync 0;\n";

TEST(PTXWarpgroup, WhatIsNotWaitedForIsInUse) {
  EXPECT_EQ(complaint(wait, wait), "");
  for (auto [from, to] :
       {std::pair(wait, std::string()),
        std::pair(wait, std::string("wgmma.wait_group.sync.aligned 1;")),
        std::pair(commit, std::string())})
    EXPECT_THAT(complaint(from, to),
                HasSubstr("'st.global.b32': '%f0' must not be used before "
                          "wgmma.wait_group, the wgmma in PTX line 26 has it"))
        << from;
  EXPECT_THAT(complaint(commit, commit + "mov.b32 %f3, 0;"),
              HasSubstr("'%f3' must not be used before wgmma.wait_group"));
  // So are A's registers, but not the descriptors.
  const Case fromRegisters = {.columns = 8, .leftInRegisters = true};
  EXPECT_THAT(complaint(commit, commit + "mov.b32 %a2, 0;", fromRegisters),
              HasSubstr("'%a2' must not be used before wgmma.wait_group"));
  EXPECT_EQ(complaint(commit, "mov.b64 %d8, 0;" + commit), "");
}

TEST(PTXWarpgroup, AccumulatorsBelongToProductsOfOneShape) {
  auto second = [](const std::string &operands) {
    return complaint(commit, "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16."
                             "bf16 " +
                                 operands + commit);
  };
  EXPECT_EQ(second("{%f0,%f1,%f2,%f3}, %d7, %d8, 1, 1, 1, 0, 0;"), "");
  EXPECT_EQ(second("{%r4,%r5,%r6,%r7}, %d7, %d8, 1, 1, 1, 0, 0;"), "");
  const char *refusal = "must not be used before wgmma.wait_group but by a "
                        "wgmma with the same accumulators, the one in PTX line "
                        "26 has it";
  EXPECT_THAT(second("{%r4,%r5,%r6,%f3}, %d7, %d8, 1, 1, 1, 0, 0;"),
              HasSubstr(std::string("'%f3' ") + refusal));
  EXPECT_THAT(second("{%f1,%f0,%f2,%f3}, %d7, %d8, 1, 1, 1, 0, 0;"),
              HasSubstr(std::string("'%f1' ") + refusal));
  EXPECT_THAT(second("{%r4,%r5,%r6,%r7}, {%f0,%f1,%f2,%f3}, %d8, 1, 1, 1, 0;"),
              HasSubstr(std::string("'%f0' ") + refusal));
  EXPECT_THAT(second("{%r4,%r5,%r6,%r7}, {%r4,%r5,%r6,%r7}, %d8, 1, 1, 1, 0;"),
              HasSubstr("'%r4' must not be an accumulator and of A in one "
                        "wgmma"));
}

TEST(PTXWarpgroup, RegistersNeedAFence) {
  EXPECT_THAT(complaint(fence, ""),
              HasSubstr("wgmma.fence must stand before the first wgmma"));
  EXPECT_THAT(complaint(fence, fence + "mov.b32 %f1, 0;"),
              HasSubstr("wgmma.fence must stand between wgmma and the last use "
                        "of '%f1'"));
  EXPECT_THAT(complaint(fence, fence + "mov.b32 %a3, 0;",
                        {.columns = 8, .leftInRegisters = true}),
              HasSubstr("the last use of '%a3'"));
}

TEST(PTXWarpgroup, MemoryNeedsAProxyFence) {
  EXPECT_THAT(complaint(proxy, ""),
              HasSubstr("is written by thread 0, which must pass "
                        "fence.proxy.async before the barrier"));
  EXPECT_THAT(
      complaint(proxy + barrier, barrier + proxy),
      HasSubstr("which must pass fence.proxy.async before the barrier"));
  EXPECT_THAT(complaint(barrier, ""), HasSubstr("race for shared memory"));
  EXPECT_EQ(complaint(proxy, "fence.proxy.async.shared::cta;"), "");
  // Copies land, then comes the fence.
  const std::string
      copy = "mul.wide.u32 %d10, %r0, 16; add.s64 %d10, %d10, %d1; mad.lo.s32 "
             "%r9, "
             "%r0, 16, %r1;\n cp.async.cg.shared.global [%r9], [%d10], 16;\n",
      landed = "cp.async.wait_all;";
  EXPECT_EQ(complaint(proxy, copy + landed + proxy), "");
  EXPECT_THAT(complaint(proxy, copy + proxy + landed),
              HasSubstr("which must pass fence.proxy.async"));
}

TEST(PTXWarpgroup, MemoryIsReadUntilProductsAreWaitedFor) {
  const std::string store = "st.shared.b32 [%r1+65536], %r0;\n",
                    one = "setp.eq.s32 %p3, %r0, 0;\n@%p3 " + store;
  for (uint64_t seed : {0, 1, 2, 3}) {
    const Case c = {.columns = 8};
    // The warp of the store may come first: it finds its own, unfenced.
    EXPECT_THAT(complaint(wait, barrier + one + wait, c, {.seed = seed}),
                AnyOf(HasSubstr("race for shared memory at 65536"),
                      HasSubstr("65536 is written by thread 0, which must")));
    EXPECT_THAT(complaint(wait, one + barrier + wait, c, {.seed = seed}),
                HasSubstr("race for shared memory at 65536"));
    EXPECT_EQ(complaint(wait, wait + barrier + one, c, {.seed = seed}), "");
  }
}

TEST(PTXWarpgroup, WarpsMultiplyTogether) {
  EXPECT_THAT(
      complaint(wait, wait, {.columns = 8}, {.threads = 96}),
      HasSubstr("a warpgroup must have 128 threads, got a block of 96"));
  EXPECT_THAT(complaint(fence, fence + "cvt.u64.u32 %d8, %r0;"),
              HasSubstr("must be the same in all lanes, got 0x0 and 0x1"));
  EXPECT_THAT(
      complaint(fence, "shr.u32 %r9, %r0, 5; cvt.u64.u32 %d10, %r9;"
                       "add.s64 %d8, %d8, %d10;" +
                           fence),
      HasSubstr("the warps of a warpgroup must multiply the same matrices"));
  EXPECT_THAT(complaint(fence, "setp.ge.s32 %p3, %r0, 96;\n@%p3 ret;" + fence),
              HasSubstr("multiply together, warp 3 began 0 products of 1"));
}

TEST(PTXWarpgroup, DescriptorsAreChecked) {
  auto with = [](uint64_t bits, const Case &c = {}) {
    return complaint(
        fence,
        "add.s64 %d8, %d8, " + std::to_string(int64_t(bits)) + ";" + fence, c);
  };
  EXPECT_EQ(with(0), "");
  EXPECT_EQ(with(4), ""); // the row's second half
  EXPECT_THAT(with(1ull << 46),
              HasSubstr("bits of a matrix descriptor that mean nothing must be "
                        "0, got 0x4000404000001000"));
  EXPECT_THAT(with(3ull << 49),
              HasSubstr("base offset of a matrix descriptor must be 0, got 3"));
  EXPECT_THAT(with(24),
              HasSubstr("a matrix of swizzle 128 must begin in the first row "
                        "of a pattern of 1024 bytes, got address 65920"));
  EXPECT_THAT(with(7),
              HasSubstr("a matrix of swizzle 128 must have 32 bytes in a row, "
                        "got 16 from address 65648 on"));
  EXPECT_THAT(with(1ull << 32),
              HasSubstr("a matrix of swizzle 128 must have patterns multiples "
                        "of 1024 bytes apart, got 1040"));
  EXPECT_THAT(with(8ull << 16, {.columns = 128, .right = {128, false}}),
              HasSubstr("patterns multiples of 1024 bytes apart, got 2176"));
}

TEST(PTXWarpgroup, RefusesOtherForms) {
  for (const char *opcode :
       {"m64n12k16.f32.bf16.bf16", "m64n264k16.f32.bf16.bf16",
        "m64n0k16.f32.bf16.bf16", "m64n8k8.f32.tf32.tf32",
        "m64n8k16.f16.f16.f16", "m64n8k16.f32.bf16.f16",
        "m64n8k32.f32.e4m3.e4m3", "m128n8k16.f32.bf16.bf16"})
    EXPECT_THAT(complaint("m64n8k16.f32.bf16.bf16", opcode),
                HasSubstr("the machine does not know the opcode "
                          "'wgmma.mma_async.sync.aligned." +
                          std::string(opcode)));
  EXPECT_THAT(complaint(proxy, "fence.proxy.alias;"),
              HasSubstr("does not know the opcode 'fence.proxy.alias'"));
  EXPECT_THAT(complaint(", 1, 1, 0, 0;", ", 1, 1, 0, 0, 0;"),
              HasSubstr("has 4 results and 7 or 9 operands, got 4 and 8"));
  EXPECT_THAT(complaint(", 1, 1, 0, 0;", ", 2, 1, 0, 0;"),
              HasSubstr("a modifier must be 1 or -1, got 2"));
  EXPECT_THAT(complaint(", 1, 1, 0, 0;", ", 1, 1, 0, 3;"),
              HasSubstr("a modifier must be 0 or 1, got 3"));
}

} // namespace
