//===- ArithmeticTest.cpp - one instruction, worked out by hand -----------===//

#include "test/ptx/Kernel.h"

#include <gtest/gtest.h>

using namespace kvc::test;

namespace {

/// The value of `%d2` in every lane.
void expectValue(const std::string &body, int64_t value) {
  SCOPED_TRACE(body);
  std::vector<int64_t> got;
  ASSERT_NO_THROW(got = runKernel(body));
  EXPECT_EQ(got, std::vector<int64_t>(32, value));
}

/// An instruction whose result is %r2, extended without a sign.
void expect32(const std::string &instruction, uint32_t value) {
  expectValue(instruction + " cvt.u64.u32 %d2, %r2;", value);
}

TEST(PTX, Integers) {
  expect32("add.s32 %r2, 7, -9;", uint32_t(-2));
  expect32("sub.s32 %r2, 0, 1;", 0xffffffff);
  expect32("mul.lo.s32 %r2, 65536, 65537;", 65536);
  expect32("mul.hi.u32 %r2, -1, 2;", 1);
  expect32("mul.hi.s32 %r2, -1, 2;", 0xffffffff);
  expect32("mad.lo.s32 %r2, 3, 4, 5;", 17);
  expect32("div.s32 %r2, -7, 2;", uint32_t(-3));
  expect32("rem.s32 %r2, -7, 2;", uint32_t(-1));
  expect32("div.u32 %r2, -7, 2;", 0x7ffffffc);
  expect32("min.s32 %r2, -1, 1;", 0xffffffff);
  expect32("min.u32 %r2, -1, 1;", 1);
  expect32("max.s32 %r2, -1, 1;", 1);
  expect32("not.b32 %r2, 5;", 0xfffffffa);
  expect32("shl.b32 %r2, 3, 31;", 0x80000000);
  expect32("shl.b32 %r2, 3, 32;", 0);
  expect32("shr.u32 %r2, -1, 31;", 1);
  expect32("shr.u32 %r2, -1, 32;", 0);
  expect32("shr.s32 %r2, -2, 40;", 0xffffffff);
  expect32("shf.l.wrap.b32 %r2, 0x80000001, 0x40000003, 4;", 0x00000038);
  expect32("shf.l.wrap.b32 %r2, 7, 5, 32;", 5);
  expect32("shf.l.clamp.b32 %r2, 7, 5, 40;", 7);
  expect32("shf.r.wrap.b32 %r2, 0x80000001, 0x40000003, 4;", 0x38000000);
  expect32("shf.r.wrap.b32 %r2, 7, 5, 32;", 7);
  expect32("shf.r.clamp.b32 %r2, 7, 5, 32;", 5);
  expect32("popc.b32 %r2, 0xf0f0;", 8);
  expect32("clz.b32 %r2, 1;", 31);
  expect32("bfe.u32 %r2, 0xabcd, 4, 8;", 0xbc);
  expectValue("bfe.u64 %d2, -1, 60, 32;", 15);
  expect32("bfe.s32 %r2, 0xabcd, 4, 8;", 0xffffffbc);
  expect32("bfe.s32 %r2, 0x7bcd, 4, 7;", 0x3c);
  expect32("bfe.s32 %r2, -1, 3, 0;", 0);
  expect32("bfe.s32 %r2, 0x80000000, 40, 4;", 0xffffffff);
  expect32("bfe.s32 %r2, 0x70000000, 28, 8;", 7);
  expectValue("bfe.s64 %d2, -2, 60, 4;", uint64_t(-1));
  expectValue("mul.wide.s32 %d2, -1, 5;", -5);
  expectValue("mul.wide.u32 %d2, -1, 2;", 0x1fffffffell);
  expectValue("mad.wide.u32 %d2, 3, 4, 5;", 17);
  expectValue("min.s64 %d2, -1, 1;", -1);
  expectValue("max.u64 %d2, -1, 1;", -1);
  expectValue("mul.hi.u64 %d2, -1, 2;", 1);
  expectValue("neg.s64 %d2, 4;", -4);
}

TEST(PTX, CarriesBetweenInstructions) {
  // 2^64 - 1 + 1 = 2^64: the upper half gets the carry.
  expectValue("add.cc.s64 %d3, -1, 1; addc.cc.s64 %d2, 5, 7;", 13);
  expectValue("sub.cc.s64 %d3, 0, 1; subc.cc.s64 %d2, 5, 7;", -3);
  expectValue("add.cc.s64 %d3, 1, 1; addc.s64 %d2, 5, 7;", 12);
}

TEST(PTX, Floats) {
  expect32("add.rn.f32 %r2, 0f3F800000, 0f40000000;", 0x40400000); // 1 + 2
  expect32("fma.rn.f32 %r2, 0f40000000, 0f40400000, 0f3F800000;",
           0x40e00000);                                            // 7
  expect32("div.rn.f32 %r2, 0f3F800000, 0f40400000;", 0x3eaaaaab); // 1/3
  expect32("ex2.approx.f32 %r2, 0f40400000;", 0x41000000);         // 8
  // Below the smallest normal number is 0; without .ftz it is not.
  expect32("ex2.approx.ftz.f32 %r2, 0fc2fe0000;", 0); // 2^-127
  expect32("ex2.approx.f32 %r2, 0fc2fe0000;", 0x00400000);
  expect32("ex2.approx.ftz.f32 %r2, 0fc2fc0000;", 0x00800000); // 2^-126
  expect32("lg2.approx.f32 %r2, 0f41000000;", 0x40400000);     // 3
  expect32("sqrt.rn.f32 %r2, 0f41100000;", 0x40400000);        // 3
  // A number beats NaN, unless the opcode says .NaN; 0 is above -0.
  expect32("max.f32 %r2, 0f7FFFFFFF, 0f3F800000;", 0x3f800000);
  expect32("max.NaN.f32 %r2, 0f7FC00000, 0f3F800000;", 0x7fffffff);
  expect32("max.f32 %r2, 0f80000000, 0f00000000;", 0);
  expect32("min.f32 %r2, 0f80000000, 0f00000000;", 0x80000000);
  expect32("copysign.f32 %r2, 0fBF800000, 0f40000000;", 0xc0000000);
  expect32("abs.f32 %r2, 0fFFC00000;", 0x7fc00000);
  expect32("neg.f32 %r2, 0f00000000;", 0x80000000);
}

TEST(PTX, Halves) {
  // 1.5 and -2 in f16, then in bf16.
  expect32("min.f16 %h1, 0x3e00, 0xc000; mov.b32 %r2, {%h1, %h1};", 0xc000c000);
  expect32("max.NaN.f16 %h1, 0x3e00, 0x7e00; mov.b32 %r2, {%h1, %h1};",
           0x7fff7fff);
  expect32("max.bf16 %h1, 0x3fc0, 0xc000; mov.b32 %r2, {%h1, %h1};",
           0x3fc03fc0);
  expect32("setp.nan.f16 %p1, 0x3e00, 0x7e00; selp.b32 %r2, 1, 0, %p1;", 1);
  expect32("setp.lt.bf16 %p1, 0xc000, 0x3fc0; selp.b32 %r2, 1, 0, %p1;", 1);
  expect32(
      "abs.f16 %h1, 0xc000; neg.bf16 %h2, 0x3fc0; mov.b32 %r2, {%h1, %h2};",
      0xbfc04000);
}

TEST(PTX, Conversions) {
  expect32("cvt.rzi.s32.f32 %r2, 0fC0200000;", uint32_t(-2)); // -2.5
  expect32("cvt.rmi.s32.f32 %r2, 0fC0200000;", uint32_t(-3));
  expect32("cvt.rni.s32.f32 %r2, 0f40200000;", 2); // 2.5, to even
  expect32("cvt.rpi.s32.f32 %r2, 0f40200000;", 3);
  expect32("cvt.rzi.s32.f32 %r2, 0f7FC00000;", 0);
  expect32("cvt.rzi.s32.f32 %r2, 0f7F800000;", 0x7fffffff);
  expect32("cvt.rzi.s32.f32 %r2, 0fFF800000;", 0x80000000);
  expect32("cvt.rzi.u32.f32 %r2, 0fBF800000;", 0);
  expect32("cvt.rzi.u32.f32 %r2, 0f4F800000;", 0xffffffff); // 2^32
  expect32("cvt.rn.f32.s32 %r2, -1;", 0xbf800000);
  expect32("cvt.rn.f32.u32 %r2, 16777217;", 0x4b800000);
  expect32("cvt.rmi.f32.f32 %r2, 0fBF000000;", 0xbf800000);
  expect32("cvt.rn.bf16.f32 %h1, 0f3F808000; cvt.f32.bf16 %r2, %h1;",
           0x3f800000); // half way, to even
  expect32("cvt.rn.f16.f32 %h1, 0f477FF000; cvt.f32.f16 %r2, %h1;", 0x7f800000);
  expect32("mov.b16 %h1, 0xBE00; cvt.rpi.f16.f16 %h1, %h1; cvt.f32.f16 %r2, "
           "%h1;", // -1.5
           0xbf800000);
  expect32("mov.b16 %h1, 0x4100; cvt.rni.f16.f16 %h1, %h1; cvt.f32.f16 %r2, "
           "%h1;", // 2.5
           0x40000000);
  expect32("mov.b16 %h1, 0x7D00; cvt.rmi.f16.f16 %h1, %h1; cvt.u32.u16 %r2, "
           "%h1;", // NaN
           0x7fff);
  expect32("mov.b16 %h1, 0xBFC0; cvt.rmi.bf16.bf16 %h1, %h1; cvt.f32.bf16 %r2, "
           "%h1;", // -1.5
           0xc0000000);
  expect32("cvt.rn.bf16x2.f32 %r2, 0f3F800000, 0f40000000;", 0x3f804000);
  expectValue("mov.b32 %r2, -3; cvt.s64.s32 %d2, %r2;", -3);
  expectValue("cvta.to.global.u64 %d2, 77;", 77);
  expectValue("mov.b32 %r2, -3; cvt.u64.u32 %d2, %r2;", 0xfffffffdll);
  expectValue("mov.b64 %d3, -3; cvt.u32.u64 %r2, %d3; cvt.u64.u32 %d2, %r2;",
              0xfffffffdll);
}

TEST(PTX, ComparesNaNAsTheOpcodeSays) {
  auto holds = [](const std::string &comparison, const char *a, const char *b) {
    std::string text = "setp." + comparison + " %p1, ";
    return runKernel(text + a + ", " + b + "; selp.b64 %d2, 1, 0, %p1;")[0];
  };
  const char *nan = "0f7FC00000", *one = "0f3F800000";
  for (const char *ordered : {"eq", "ne", "lt", "le", "gt", "ge", "num"})
    EXPECT_FALSE(holds(std::string(ordered) + ".f32", nan, one)) << ordered;
  for (const char *unordered :
       {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"})
    EXPECT_TRUE(holds(std::string(unordered) + ".f32", nan, one)) << unordered;
  EXPECT_TRUE(holds("lt.s32", "-1", "0"));
  EXPECT_FALSE(holds("lt.u32", "-1", "0"));
  EXPECT_TRUE(holds("hs.u64", "-1", "0"));
}

TEST(PTX, MovesParts) {
  expectValue("mov.b64 %d2, {%r3, %r4};", -1); // registers begin as ones
  expectValue("mov.b32 %r3, 1; mov.b32 %r4, 2; mov.b64 %d2, {%r3, %r4};",
              0x200000001ll);
  expect32("mov.b64 %d3, 0x500000006; mov.b64 {%r3, %r4}, %d3; "
           "shl.b32 %r3, %r3, 8; or.b32 %r2, %r3, %r4;",
           0x605);
  expect32("mov.b32 {%h1, %h2}, 0x12345678; mov.b32 %r2, {%h2, %h1};",
           0x56781234);
}

} // namespace
