//===- LongPromptTest.cpp - prompts of many spans against the reference ---===//
//
// Lengths at which a selection cuts a head otherwise than a short prompt's: several spans,
// spans of more than 2048 tokens, splits of more than 128, shares of more rows than are
// listed at a time; more tokens whose scores share a digit than a block has room for, with
// lists of candidates and without. In calls that select first and compact later, and that
// do both.
//
// usage: long_prompt_test KVC_OPT WORK_DIR POLICY.mlir...
//
//===----------------------------------------------------------------------===//

#include "dialect/reference/Interpreter.h"
#include "test/matrix/Eviction.h"
#include "test/matrix/ExpectFaults.h"
#include "test/matrix/OpenedPolicy.h"
#include "test/matrix/PolicyTests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

using namespace kvc;
using namespace kvc::test;

namespace {

/// Norms in fp32, beside those of `want`: all that is near the smallest one kept may be
/// kept in its place. Cheap for each token, of which there are many.
class NearNorms : public Margin {
public:
  /// `equal`: no score is near another, but for those that are the same.
  NearNorms(const reference::Kept &want, bool equal)
      : want(want), equal(equal) {
    for (size_t head = 0; head < want.tokens.size(); ++head) {
      last.push_back(INFINITY);
      for (int64_t token :
           want.scores.empty() ? std::vector<int64_t>() : want.tokens[head])
        last[head] = std::min(last[head], want.scores[head][token]);
    }
  }
  bool keepsEither(int64_t head, int64_t token) override {
    return !equal && near(want.scores[head][token], last[head]);
  }
  bool keepsSoMany(int64_t head, size_t count) override {
    return count == want.tokens[head].size();
  }
  bool scoreMayBe(int64_t head, int64_t token, float got) override {
    return near(want.scores[head][token], got);
  }
  bool searchesEither(int64_t, int64_t) override { return false; }

private:
  const reference::Kept &want;
  const bool equal;
  std::vector<double> last;

  static bool near(double a, double b) {
    return std::abs(a - b) <= 1e-5 * std::abs(a);
  }
};

struct Batch {
  Sequences sequences;
  int64_t headDim = 16;
  Keys keys = Keys::Random;
};
const Batch batches[] = {
    {{{40000, 9000}}},
    {{{150000, 500}, {5000, 400}, {300, 400}}},
    // At lengths from which a span has more tokens.
    {{{8192, 700}, {8193, 700}, {16384, 900}, {16385, 900}, {513, 100}}},
    {{{300000, 3000}}},
    // Without lists. Of the second one 5000 norms or so are within a sixteenth of an octave
    // of the threshold, of the third they are all the same.
    {{{16384, 900}, {8193, 700}, {513, 100}}},
    {{{16384, 8000}}, 128},
    {{{16384, 900}}, 16, Keys::Equal},
    {{{16385, 900}}, 16, Keys::Equal}};

class LongPromptTest : public OpenedPolicy {
public:
  using OpenedPolicy::OpenedPolicy;

  void TestBody() override {
    ASSERT_NO_FATAL_FAILURE(readPolicy());
    std::string library = workDir + "/" + stemOf(file) + ".so";
    std::string command = compiler + " " + file +
                          " --emit=library --chip=none --host-forms=both"
                          " --shape head_dim=16,group=2,dtype=f32"
                          " --shape head_dim=128,group=2,dtype=f32 -o " +
                          library;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    for (const auto &[sequences, headDim, keys] : batches) {
      Shape shape{1, 2, headDim, KVC_F32};
      auto open = [&] {
        kvc_target target = {};
        target.kind = KVC_HOST;
        return openEvictor(library, target, shape, sequences);
      };
      auto inPhases = open(), atOnce = open();
      atOnce->runAtOnce();
      std::vector<Problem> problems;
      for (auto [tokens, budget] : sequences)
        problems.emplace_back(shape, tokens, budget, keys, tokens,
                              queriesFor(policy, tokens));
      rt::KeptLayer got = evict(*inPhases, problems, nullptr, false);
      expectNone(compareBytes(got, evict(*atOnce, problems, nullptr, false)));
      for (size_t i = 0; i < problems.size(); ++i) {
        SCOPED_TRACE(testing::Message() << "T " << sequences[i].first << " B "
                                        << sequences[i].second);
        auto want = reference::interpret(policy, problems[i].layer, {});
        ASSERT_TRUE(mlir::succeeded(want));
        NearNorms margin(*want, keys == Keys::Equal);
        expectNone(judge(problems[i], got.sequences[i], *want, margin));
      }
    }
  }
};

} // namespace

int main(int argc, char **argv) {
  return runPolicyTests<LongPromptTest>(argc, argv, "LongPrompt");
}
