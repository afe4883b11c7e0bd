//===- SharedPagesTest.cpp - pages that rows move in and that occur twice --===//
//
// An eviction in place moves rows within pages that nobody else may have. The host looks
// at the tables and refuses the call; on a device that it cannot look into the kernel
// that moves rows looks, and sets KVC_DATA_CACHE. Random tables, in which up to twelve entries
// have become others: of rows, or of slots that nobody uses. Both must say the same.
//
// usage: shared_pages_test KVC_OPT WORK_DIR POLICY.mlir...
//
//===----------------------------------------------------------------------===//

#include "kvc/artifact.h"
#include "kvc/host.h"
#include "kvc/ptx.h"
#include "test/matrix/OpenedPolicy.h"
#include "test/matrix/PolicyTests.h"
#include "test/matrix/RowsCall.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>

using namespace kvc;
using namespace kvc::test;

namespace {

constexpr uint32_t batch = 3, heads = 2, dim = 8, pageRows = 4;

class SharedPages : public OpenedPolicy {
public:
  using OpenedPolicy::OpenedPolicy;

  void TestBody() override {
    ASSERT_NO_FATAL_FAILURE(readPolicy());
    std::string library = compile();
    host = openLibrary(library, KVC_HOST, 0);
    ptx = openLibrary(library, KVC_PTX, 1);
    for (Layout layout : layouts)
      for (uint32_t i = 0; i < 20 && isPaged(layout); ++i)
        compare(layout, i, [](Laid &) {});
    EXPECT_GE(told, 30u);
    EXPECT_GE(right, 30u);
    compareTwoPools();
    compareLargePool();
  }

private:
  Module host{nullptr, kvc_module_close}, ptx{nullptr, kvc_module_close};
  Random random;
  size_t told = 0, right = 0;

  std::string compile() {
    std::string path = workDir + "/" + stemOf(file) + ".so";
    std::string command =
        compiler + " " + file +
        " --emit=library --host-forms=threads --chip=sm_90 -o " + path +
        " --shape head_dim=8,group=2,dtype=f32,cache=paged,into=paged";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return path;
  }

  /// What the host says of rows that move; "" where they do.
  std::string refusal(Laid &laid, const RowsInput &input) {
    Placement placement = {&laid, false, {}};
    try {
      evictRows(host.get(), laid, nullptr, input, false, &placement);
    } catch (const std::runtime_error &error) {
      return error.what();
    }
    return "";
  }

  /// Up to twelve entries become others, by `i`; `prepare` comes first.
  template <typename Prepare>
  void compare(Layout layout, uint32_t i, Prepare prepare) {
    SCOPED_TRACE(testing::Message() << int(layout) << ", " << i);
    Cache cache =
        randomCache(random, batch, heads, dim, KVC_F32, i % 2 ? 20 : 60);
    RowsInput input = drawInput(policy, cache, 2, 0, random);
    Laid laid(cache, layout, pageRows, 2), hosts(cache, layout, pageRows, 2);
    for (Laid *one : {&laid, &hosts}) {
      prepare(*one);
      // Heads without a row begin in the middle of a page, too.
      for (size_t head = 0; head < one->offsets.size(); ++head)
        one->offsets[head] += one->counts[head] ? 0 : int32_t(i % 3);
    }
    bool values = !laid.vTable.empty() && i % 4 > 1;
    std::vector<int32_t> Laid::*table = values ? &Laid::vTable : &Laid::table;
    for (uint32_t change = 0; change < 3 * (i % 5); ++change) {
      size_t from = random() % (laid.*table).size();
      size_t to = random() % (laid.*table).size();
      (laid.*table)[to] = (hosts.*table)[to] = (laid.*table)[from];
    }
    std::string said = refusal(hosts, input);
    Placement placement = {&laid, i % 3 == 0, {}};
    RowsResult got =
        evictRows(ptx.get(), laid, nullptr, input, false, &placement);
    EXPECT_EQ(got.status, said.empty() ? 0 : KVC_DATA_CACHE) << said;
    ++(said.empty() ? right : told);
  }

  /// Keys and values in memories of their own: a number may be a page of each.
  void compareTwoPools() {
    std::vector<std::byte> values;
    told = right = 0;
    for (uint32_t i = 0; i < 20; ++i)
      compare(Layout::PagesKV, i, [&](Laid &laid) {
        values.resize(laid.memory.size());
        laid.view.v.data = values.data();
        laid.vTable = laid.table;
        laid.view.v_table.data = laid.vTable.data();
      });
    EXPECT_GE(told, 5u);
    EXPECT_GE(right, 5u);
  }

  /// More pages than a block has marks for; the memory is touched where rows lie.
  void compareLargePool() {
    constexpr uint32_t pages = 3 * 400'000;
    constexpr size_t pageBytes = pageRows * heads * dim * sizeof(float);
    std::unique_ptr<void, void (*)(void *)> memory(
        std::calloc(pages, pageBytes), std::free);
    ASSERT_TRUE(memory);
    told = right = 0;
    for (uint32_t i = 0; i < 20; ++i)
      compare(Layout::PagesKV, i, [&](Laid &laid) {
        laid.view.k.data = laid.view.v.data = memory.get();
        laid.view.pages = pages;
        for (std::vector<int32_t> *table : {&laid.table, &laid.vTable})
          for (int32_t &page : *table)
            page *= pages / 200;
      });
    EXPECT_GE(told, 5u);
    EXPECT_GE(right, 5u);
  }
};

} // namespace

int main(int argc, char **argv) {
  kvc_enable_host();
  kvc_enable_ptx();
  return runPolicyTests<SharedPages>(argc, argv, "SharedPages");
}
