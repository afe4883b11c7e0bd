// Boxes of a tensor by the bulk copy engine, and the barriers that they arrive at.

#include "test/ptx/Kernel.h"

#include "ptx/TensorMap.h"
#include "ptx/profile/Report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

using namespace kvc;
using testing::HasSubstr;

namespace {

// Of a tensor [2 outer, 3 heads, 40 rows, 128 columns], rows 160 elements apart.
constexpr uint32_t columns = 128, rows = 40, heads = 3, outers = 2, pitch = 160,
                   boxRows = 16, boxBytes = boxRows * 128;

uint16_t valueAt(uint32_t outer, uint32_t head, uint32_t row, uint32_t column) {
  return uint16_t(((outer * heads + head) * rows + row) * pitch + column);
}

/// A kernel of 4 KiB of shared memory, `shared`, with an mbarrier behind it, `arrival`. It has
/// the map's address in %d2 and %tid.x in %r0; what `body` leaves of a box at `shared` each
/// thread stores as words from its number on.
std::string textOf(const std::string &body) {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n"
         ".visible .entry kernel(.param .u64 results, .param .align 128 .b8 "
         "map[128])\n{\n.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>;\n"
         ".shared .align 1024 .b8 shared[4096]; .shared .align 8 .b8 "
         "arrival[8];\nmov.u32 %r0, %tid.x; mov.b64 %d1, map; "
         "cvta.param.u64 %d2, %d1; mov.b32 %r7, 0;\n" +
         body +
         "\nld.param.b64 %d3, [results]; shl.b32 %r1, %r0, 2;\n"
         "cvt.u64.u32 %d4, %r1; add.s64 %d3, %d3, %d4; mov.u32 %r2, shared;\n"
         "add.s32 %r2, %r2, %r1;\n$store:\nld.shared.b32 %r3, [%r2];\n"
         "st.global.b32 [%d3], %r3; add.s64 %d3, %d3, 256; add.s32 %r2, %r2, "
         "256; add.s32 %r7, %r7, 256;\nsetp.lt.u32 %p3, %r7, 2048;\n"
         "@%p3 bra $store;\nret;\n}\n";
}

// Pieces of a body. 64 threads: two warps.
const std::string first = "setp.ne.u32 %p1, %r0, 0;\n",
                  make = "@%p1 bra $made;\nmbarrier.init.shared::cta.b64 "
                         "[arrival], 1;\nfence.proxy.async;\n$made:\n"
                         "bar.sync 0;\n",
                  await = "$wait:\nmbarrier.try_wait.parity.shared::cta.b64 "
                          "%p2, [arrival], 0;\n@!%p2 bra $wait;\n";
std::string expect(uint32_t bytes) {
  return "mbarrier.arrive.expect_tx.shared::cta.b64 _, [arrival], " +
         std::to_string(bytes) + ";\n";
}
std::string ask(int column, int row, int head, int outer,
                const std::string &to = "shared") {
  return "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::"
         "complete_tx::bytes [" +
         to + "], [%d2, {" + std::to_string(column) + ", " +
         std::to_string(row) + ", " + std::to_string(head) + ", " +
         std::to_string(outer) + "}], [arrival];\n";
}
/// One thread asks, all wait.
std::string brought(const std::string &asked) {
  return first + make + "@%p1 bra $asked;\n" + asked + "$asked:\n" + await;
}

struct Tensor {
  std::vector<uint16_t> values =
      std::vector<uint16_t>(outers * heads * rows * pitch + 64);
  rt::BoxedTensor shape;

  Tensor() {
    auto *begin = reinterpret_cast<uint16_t *>(
        (reinterpret_cast<uintptr_t>(values.data()) + 127) / 128 * 128);
    for (uint32_t i = 0; i < outers * heads * rows * pitch; ++i)
      begin[i] = uint16_t(i);
    shape = {.data = begin,
             .extents = {columns, rows, heads, outers},
             .strides = {pitch * 2, rows * pitch * 2, heads * rows * pitch * 2},
             .rows = boxRows};
  }
};

/// Kernel and parameters of a run.
struct Prepared {
  ptx::Program program;
  ptx::GlobalMemory memory;
  const ptx::Kernel &kernel;
  void *results;
  ptx::ParameterBytes parameters;

  Prepared(const std::string &body, const Tensor &tensor)
      : program(ptx::parse(textOf(body))), kernel(program.kernels.at("kernel")),
        results(memory.allocate(boxBytes)), parameters(kernel) {
    gpu::TensorMap map = ptx::mapOf(tensor.shape);
    std::memcpy(parameters.all().data(), &results, 8);
    std::memcpy(&parameters.all()[kernel.parameters[1].offset], &map,
                sizeof map);
  }
};

/// The first box's bytes of shared memory.
std::vector<uint16_t> run(const std::string &body, const Tensor &tensor = {},
                          uint64_t seed = 1) {
  Prepared of(body, tensor);
  ptx::run(of.kernel, {{1, 1, 1}, 64}, of.parameters.all(), of.memory.view(), 1,
           seed);
  std::vector<uint16_t> values(boxBytes / 2);
  std::memcpy(values.data(), of.results, boxBytes);
  return values;
}

std::string complaint(const std::string &body, const Tensor &tensor = {},
                      uint64_t seed = 1) {
  return test::complaintOf([&] { run(body, tensor, seed); });
}

/// Rows of 128 bytes, pieces of 16 where their number and the row's differ.
void expectBox(const std::vector<uint16_t> &found, int column, int row,
               int head, int outer) {
  for (uint32_t i = 0; i < boxRows; ++i)
    for (uint32_t j = 0; j < 64; ++j) {
      bool there = row + int(i) >= 0 && row + int(i) < int(rows) && head >= 0 &&
                   head < int(heads);
      uint32_t at = i * 64 + ((j / 8) ^ (i % 8)) * 8 + j % 8;
      ASSERT_EQ(found[at],
                there ? valueAt(uint32_t(outer), uint32_t(head),
                                uint32_t(row + int(i)), uint32_t(column) + j)
                      : 0)
          << "row " << i << ", column " << j;
    }
}

} // namespace

TEST(PTXBulkCopy, BringsABoxAsWgmmaReadsIt) {
  for (uint64_t seed : {0, 1, 2, 3})
    for (int column : {0, 64})
      for (int row : {0, 5, 24})
        expectBox(
            run(brought(expect(boxBytes) + ask(column, row, 2, 1)), {}, seed),
            column, row, 2, 1);
}

TEST(PTXBulkCopy, BringsZerosFromOutsideOfTheTensor) {
  for (int row : {-3, 30, 40, 1000})
    expectBox(run(brought(expect(boxBytes) + ask(0, row, 1, 0))), 0, row, 1, 0);
  for (int head : {-1, 3})
    expectBox(run(brought(expect(boxBytes) + ask(0, 0, head, 0))), 0, 0, head,
              0);
}

TEST(PTXBulkCopy, CountsTurns) {
  // The second one's wait has the other parity.
  expectBox(run(brought(expect(boxBytes) + ask(0, 0, 0, 0)) +
                "bar.sync 0;\n@%p1 bra $again;\n" + expect(boxBytes) +
                ask(64, 8, 1, 1) +
                "$again:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, "
                "[arrival], 1;\n@!%p2 bra $again2;\nbra $over;\n$again2:\n"
                "bra $again;\n$over:\n"),
            64, 8, 1, 1);
}

TEST(PTXBulkCopy, WhoReadsMustWait) {
  // The asker's own warp has not waited, nor has the other one.
  EXPECT_THAT(
      complaint(first + make + "@%p1 bra $asked;\n" + expect(boxBytes) +
                ask(0, 0, 0, 0) + "$asked:\nbar.sync 0;\n"),
      HasSubstr("is brought by a bulk copy, for whose mbarrier thread"));
  // One warp waits, and meets the other one: both may read.
  const std::string one = first + make + "@%p1 bra $asked;\n" +
                          expect(boxBytes) + ask(0, 0, 0, 0) +
                          "$asked:\nsetp.ge.u32 %p0, %r0, 32;\n@%p0 bra "
                          "$met;\n" +
                          await + "$met:\n";
  EXPECT_EQ(complaint(one + "bar.sync 0;\n"), "");
  EXPECT_THAT(
      complaint(one),
      HasSubstr("is brought by a bulk copy, for whose mbarrier thread"));
  // Nor may anybody write there.
  EXPECT_THAT(complaint(first + make + "@%p1 bra $asked;\n" + expect(boxBytes) +
                        ask(0, 0, 0, 0) +
                        "st.shared.b32 [shared], %r0;\n$asked:\n" + await),
              HasSubstr("is brought by a bulk copy"));
}

TEST(PTXBulkCopy, WaitsForEverAreFound) {
  EXPECT_THAT(
      complaint(brought(expect(2 * boxBytes) + ask(0, 0, 0, 0))),
      HasSubstr("2 of 2 warps wait for mbarriers for ever, that at 4096 "
                "lacks 0 arrivals and 2048 bytes"));
  EXPECT_THAT(complaint(brought(expect(boxBytes) + expect(boxBytes))),
              HasSubstr("the mbarrier at 4096 must have 1 arrivals in a phase, "
                        "got one more while 2048 bytes are still to come"));
  EXPECT_THAT(complaint(brought("")),
              HasSubstr("that at 4096 lacks 1 arrivals and 0 bytes"));
}

TEST(PTXBulkCopy, WhatTheEngineSeesMustBeFenced) {
  std::string unfenced = make;
  unfenced.erase(unfenced.find("fence.proxy.async;\n"), 19);
  EXPECT_THAT(complaint(first + unfenced + "@%p1 bra $asked;\n" +
                        expect(boxBytes) + ask(0, 0, 0, 0) + "$asked:\n" +
                        await),
              HasSubstr("must pass fence.proxy.async before the barrier"));
  // What a thread has written where the box goes.
  auto over = [&](const char *fence) {
    return complaint(first +
                     "shl.b32 %r4, %r0, 2; mov.u32 %r5, shared;\nadd.s32 "
                     "%r5, %r5, %r4; st.shared.b32 [%r5], %r0;\n" +
                     fence + make + "@%p1 bra $asked;\n" + expect(boxBytes) +
                     ask(0, 0, 0, 0) + "$asked:\n" + await);
  };
  EXPECT_THAT(over(""), HasSubstr("is written by thread"));
  EXPECT_EQ(over("fence.proxy.async;\n"), "");
}

TEST(PTXBulkCopy, OverwritesNothingThatIsInUse) {
  // The other warp still reads, or has only just written.
  EXPECT_THAT(complaint(first + make +
                        "ld.shared.b32 %r4, [shared+64];\n@%p1 bra $asked;\n" +
                        expect(boxBytes) + ask(0, 0, 0, 0) + "$asked:\n" +
                        await),
              HasSubstr("has a bulk copy overwrite what is used by"));
}

TEST(PTXBulkCopy, RefusesWhatIsNotRight) {
  EXPECT_THAT(
      complaint(brought(expect(boxBytes) + ask(0, 0, 0, 0, "shared+128"))),
      HasSubstr("a box of swizzle 128 must go to a multiple of 1024 "
                "bytes, got 128"));
  EXPECT_THAT(complaint(brought("add.s64 %d2, %d2, 8;\n" + expect(boxBytes) +
                                ask(0, 0, 0, 0))),
              HasSubstr("a tensor map must be at a multiple of 128 bytes"));
  EXPECT_THAT(complaint(first + await),
              HasSubstr("there is no mbarrier at 4096"));
  EXPECT_THAT(
      complaint(brought("mbarrier.init.shared::cta.b64 [arrival], 1;\n")),
      HasSubstr("an mbarrier is there already, at 4096"));
  EXPECT_THAT(complaint(first +
                        "@%p1 bra $made;\nmbarrier.init.shared::cta.b64 "
                        "[arrival], 0;\n$made:\n"),
              HasSubstr("must be made for 1 to 1048575 arrivals, got 0"));
  std::string parity = await;
  parity.replace(parity.find("], 0;"), 5, "], 2;");
  EXPECT_THAT(complaint(first + make + parity),
              HasSubstr("a phase's parity must be 0 or 1, got 2"));
  // Others wait at what is made before they have met its maker.
  std::string unmet = make;
  unmet.erase(unmet.find("bar.sync 0;\n"), 12);
  EXPECT_THAT(complaint(first + unmet + "@%p1 bra $asked;\n" +
                            expect(boxBytes) + ask(0, 0, 0, 0) + "$asked:\n" +
                            await,
                        {}, /*seed=*/0),
              HasSubstr("meets others at what is written by"));
  Tensor tensor;
  tensor.shape.strides[1] += 8;
  EXPECT_THAT(complaint(brought(expect(boxBytes) + ask(0, 0, 0, 0)), tensor),
              HasSubstr("strides of multiples of 16 bytes"));
  EXPECT_THAT(complaint(brought(expect(boxBytes) + ask(8, 0, 0, 0))),
              HasSubstr("a box must begin at a multiple of 64 columns, got 8"));
  Tensor odd;
  odd.shape.extents[0] = 100;
  EXPECT_THAT(complaint(brought(expect(boxBytes) + ask(0, 0, 0, 0)), odd),
              HasSubstr("a tensor map must have rows of whole boxes of 64, got "
                        "100"));
  EXPECT_THROW(ptx::tensorOf(std::array<gpu::TensorMap, 1>().data()),
               rt::Failure);
}

TEST(PTXBulkCopy, IsCounted) {
  auto profileOf = [](const std::string &asked) {
    const Tensor tensor;
    Prepared of(brought(asked), tensor);
    ptx::Profiler profiler({ptx::findCard("h100"), 0, {}});
    profiler.run(of.kernel, {{1, 1, 1}, 64}, of.parameters.all(),
                 of.memory.view(), 1, 0);
    return profiler.launches().front();
  };
  ptx::LaunchProfile one = profileOf(expect(boxBytes) + ask(0, 0, 0, 0)),
                     two = profileOf(expect(2 * boxBytes) + ask(0, 0, 0, 0) +
                                     ask(64, 0, 0, 0, "shared+2048"));
  EXPECT_EQ(one.counters.bulkBytes, boxBytes);
  EXPECT_EQ(two.counters.bulkBytes, 2 * boxBytes);
  EXPECT_EQ(two.counters.l2Bytes - one.counters.l2Bytes, boxBytes);
  EXPECT_EQ(two.dramRead - one.dramRead, boxBytes);
  EXPECT_EQ(two.counters.sharedPasses - one.counters.sharedPasses,
            boxBytes / 128);
  // One thread asks, 64 bytes come in a clock, and DRAM is 695 clocks away.
  EXPECT_EQ(two.counters.issues[size_t(ptx::Unit::Global)] -
                one.counters.issues[size_t(ptx::Unit::Global)],
            8);
  EXPECT_NEAR(two.longestPath - one.longestPath, boxBytes / 64, 1);
  EXPECT_GT(one.longestPath, 695 + boxBytes / 64);
  EXPECT_THAT(ptx::report({one}, ptx::findCard("h100")),
              HasSubstr("MB from L2 (0.00 by bulk copies)"));
}
