//===- MergedRowsTest.cpp - rows that merge, into views -------------------===//
//
// What a policy merges of a prompt, or of rows that were merged before, goes into a
// view with the bytes that it has when it is packed: those are judged by the matrix
// test and by test/cli/ems-decoding.test. Into memory of its own, and in place.
//
// usage: merged_rows_test KVC_OPT WORK_DIR POLICY.mlir...
//
//===----------------------------------------------------------------------===//

#include "kvc/host.h"
#include "kvc/ptx.h"
#include "runtime/base/DType.h"
#include "test/matrix/OpenedPolicy.h"
#include "test/matrix/Passages.h"
#include "test/matrix/PolicyTests.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace kvc;
using namespace kvc::test;

namespace {

struct Case {
  uint32_t heads, group, dim;
  kvc_dtype dtype;
  int32_t most; // tokens of a sequence
};
const Case cases[] = {{2, 4, 64, KVC_BF16, 130},
                      {3, 2, 32, KVC_F32, 80},
                      {1, 3, 80, KVC_F16, 50}};
constexpr uint32_t batch = 2;

class MergedRowsTest : public OpenedPolicy {
public:
  using OpenedPolicy::OpenedPolicy;

  void TestBody() override {
    ASSERT_NO_FATAL_FAILURE(readPolicy());
    policy.walk([&](mlir::Operation *op) {
      ofMerged |= llvm::is_contained(needsOf(op).inputs, EngineInput::Members);
    });
    // What runs by PTX, and one of the others by the policy's name; KVC_ALL_CASES=1: all.
    size_t turn = stemOf(file).size() % (std::size(cases) - 1);
    int runs = 0;
    for (const Case &one : cases) {
      if (!runsPTX(one) && &one != &cases[turn] &&
          !std::getenv("KVC_ALL_CASES"))
        continue;
      compile(one);
      for (uint32_t seed = 0; seed < 4; ++seed) {
        SCOPED_TRACE(testing::Message()
                     << "head_dim " << one.dim << " seed " << seed);
        ASSERT_NO_FATAL_FAILURE(runCase(one, seed));
        ++runs;
      }
    }
    EXPECT_GE(joined * 3, runs * 2) << "too few of the runs merge anything";
  }

private:
  std::string library;
  /// The policy is one of merged caches.
  bool ofMerged = false;
  int joined = 0; // runs in which rows did

  static bool runsPTX(const Case &one) { return one.heads == 1; }

  std::vector<Passage> passages() const {
    if (ofMerged)
      return {{KVC_RAGGED, KVC_RAGGED},
              {KVC_PAGED, KVC_PAGED},
              {KVC_PAGED, KVC_RAGGED}};
    return {{KVC_DENSE, KVC_RAGGED}, {KVC_DENSE, KVC_PAGED}};
  }

  void compile(const Case &one) {
    std::string shape = "head_dim=" + std::to_string(one.dim) +
                        ",group=" + std::to_string(one.group) +
                        ",dtype=" + rt::dtypeName(one.dtype);
    library =
        workDir + "/" + stemOf(file) + "_" + std::to_string(one.dim) + ".so";
    std::string command =
        compiler + " " + file + " --emit=library --host-forms=threads --chip=" +
        (runsPTX(one) ? "sm_90" : "none") + " -o " + library +
        " --param window=3"; // else it is most of what is kept
    for (const char *places :
         ofMerged ? std::vector{"cache=merged", "cache=merged,into=ragged",
                                "cache=merged_paged,into=paged",
                                "cache=merged_paged,into=ragged"}
                  : std::vector{"into=packed", "into=ragged", "into=paged"})
      command += " --shape " + shape + "," + places;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  void runCase(const Case &one, uint32_t seed) {
    Random random(seed);
    Cache cache = ofMerged ? randomCache(random, batch, one.heads, one.dim,
                                         one.dtype, one.most)
                           : wholeCache(random, batch, one.heads, one.dim,
                                        one.dtype, one.most);
    Cache raw = cache;
    for (auto [head, rawHead] : llvm::zip(cache.all, raw.all)) {
      alike(head.v, random, one);
      alike(rawHead.k, random, one);
      if (ofMerged)
        head.k = rawHead.k;
    }
    const Cache *rawKeys = ofMerged ? nullptr : &raw;
    RowsInput input = drawInput(policy, cache, one.group, 0, random);

    Module host = openLibrary(library, KVC_HOST, 0),
           other = openLibrary(library, KVC_HOST, seed + 1);
    Layout layout = ofMerged ? Layout::Compacted : Layout::HeadsFirst;
    RowsResult want = [&] {
      Laid laid(cache, layout), laidRaw(raw, layout);
      return evictRows(host.get(), laid, rawKeys ? &laidRaw : nullptr, input,
                       /*prompt=*/!ofMerged);
    }();
    if (!ofMerged)
      for (RowsKept &head : want.heads)
        head.positions = head.indices;
    EXPECT_EQ(want.status, 0);
    joined += joins(want);
    auto judge = [&](kvc_module *module) {
      for (const Passage &passage : passages())
        judgePassage(module, passage, cache, rawKeys, input, want, seed);
    };
    judge(seed % 2 ? host.get() : other.get());
    if (!runsPTX(one) || seed != 1)
      return;
    SCOPED_TRACE("PTX");
    Module ptx = openLibrary(library, KVC_PTX, 1);
    judge(ptx.get());
    for (const Passage &passage : passages())
      judgeWrongInto(ptx.get(), passage, cache, rawKeys, input);
    if (ofMerged)
      judgeWrongMembers(ptx.get(), cache, input);
  }

  /// Where the host cannot look, kernels tell.
  static void judgeWrongMembers(kvc_module *module, const Cache &cache,
                                const RowsInput &input) {
    auto tells = [&](const char *what, auto change) {
      SCOPED_TRACE(what);
      RowsInput wrong = input;
      change(wrong);
      Laid laid(cache, Layout::Compacted);
      RowsResult got = evictRows(module, laid, nullptr, wrong);
      EXPECT_TRUE(got.status & KVC_DATA_CACHE) << "status " << got.status;
    };
    tells("angles of one position",
          [](RowsInput &wrong) { wrong.wrongAngles = 1; });
    tells("members below 0", [](RowsInput &wrong) { wrong.wrongMembers = -1; });
    tells("members above their capacity",
          [](RowsInput &wrong) { wrong.wrongMembers = 1 << 20; });
  }

  /// Rows whose cosines are large enough for them to merge.
  static void alike(std::vector<std::vector<float>> &rows, Random &random,
                    const Case &one) {
    for (std::vector<float> &row : rows)
      for (float &x : row = randomRow(random, one.dim, one.dtype))
        x += 2;
  }

  /// True where some row represents several tokens.
  static bool joins(const RowsResult &result) {
    return std::ranges::any_of(result.heads, [](const RowsKept &head) {
      return head.members.rows.size() > head.indices.size();
    });
  }
};

} // namespace

int main(int argc, char **argv) {
  kvc_enable_host();
  kvc_enable_ptx();
  return runPolicyTests<MergedRowsTest>(argc, argv, "MergedRows");
}
