//===- MatrixTest.cpp - every policy against the reference ----------------===//
//
// Policies and held-out variants x shapes x lengths x budgets x ties: the host
// run of the kernels must keep what the reference in double keeps, but for ties
// within fp32 rounding, and copy K and V byte for byte; so must their PTX on the
// machine of ptx/, and where kernels have a form for warpgroups, that. Without a seed kernels run warp by warp, with one thread by thread in a
// shuffled order: both give the same bytes. Batches have sequences of different lengths.
//
// usage: matrix_test KVC_OPT WORK_DIR POLICY.mlir...
//
//===----------------------------------------------------------------------===//

#include "dialect/reference/Interpreter.h"
#include "executor/io/MappedFile.h"
#include "runtime/base/DType.h"
#include "test/matrix/Eviction.h"
#include "test/matrix/ExpectFaults.h"
#include "test/matrix/OpenedPolicy.h"
#include "test/matrix/PolicyTests.h"
#include "test/matrix/Tolerance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

using namespace kvc;
using namespace kvc::test;

namespace {

struct Batch {
  Sequences sequences;
  Keys keys;
};

/// Batches of one shape, for which a policy is compiled once.
struct Batches {
  Shape shape;
  std::vector<Batch> all;
};

const Batches cases[] = {
#include "test/matrix/cases.def"
};

/// A layer, and of how many.
using Place = std::pair<int64_t, int64_t>;

class PolicyTest : public OpenedPolicy {
public:
  using OpenedPolicy::OpenedPolicy;

  void TestBody() override {
    ASSERT_NO_FATAL_FAILURE(readPolicy());
    bool equalKeys = rt::readText(file).find("// matrix: no equal keys") ==
                     std::string::npos;
    // Policies that look at their layer are run in several.
    std::vector<Place> places{{0, 1}};
    policy.walk([&](mlir::Operation *op) {
      if (mlir::isa<LayerOp, LayersOp, AllocateLayersOp, AllocateTableOp>(op))
        places = {{0, 1}, {0, 3}, {1, 3}, {2, 3}, {30, 40}};
      carriesState |= mlir::isa<KeptLayersOp>(op);
      readsTable |= mlir::isa<AllocateTableOp>(op);
      if (auto segment = mlir::dyn_cast<SegmentOp>(op))
        swap |= 2 * (segment.getKind() == SegmentKind::Rank);
      ranksByNorm |= mlir::isa<ProjectedNormOp>(op);
      if (auto attention = mlir::dyn_cast<AttentionOp>(op))
        rounded |= attention.getRounded();
      // Where all keys are equal, rounding decides which head's scores are
      // larger, and with it the heads' budgets: test/cli/budgets.test instead.
      equalKeys &= !mlir::isa<AllocateHeadsOp>(op);
    });
    if (carriesState)
      places = {{0, 4}, {1, 4}, {2, 4}, {3, 4}};
    std::string name = stemOf(file);
    bool all = std::getenv("KVC_ALL_CASES");
    for (const Batches &batches : cases) {
      // One shape in three, of held-out variants in four, by the policy's
      // name, so that all policies together see each; KVC_ALL_CASES=1: all of
      // them, but for norms behind the output projection, whose reference is
      // slow.
      size_t turns = file.find("/variants/") == std::string::npos ? 3 : 4;
      size_t turn = ranksByNorm ? 1 : name.size() % turns,
             number = &batches - cases;
      if ((ranksByNorm || !all) && number % turns != turn)
        continue;
      // The machine that runs PTX is slow: one batch of one of them.
      size_t own = (std::size(cases) - turn + turns - 1) / turns;
      bool onPTX = all || number / turns == name.size() / turns % own;
      const Shape &shape = batches.shape;
      // Compiling for warps takes longer than running so little: one shape of some
      // policies.
      bool warps = all || (number < turns && name.size() % 8 == 0);
      std::string together = forWarpgroups(shape);
      // Of the host it has the same.
      std::string path = onPTX || warps || together.empty()
                             ? library(shape, onPTX ? "sm_90" : "none", warps)
                             : together;
      if (!together.empty() &&
          rt::readText(together).find(".target sm_90a") == std::string::npos)
        together.clear();
      for (const Batch &batch : batches.all) {
        if (batch.keys == Keys::Equal && !equalKeys)
          continue; // the policy's file says why
        SCOPED_TRACE(testing::Message()
                     << "head_dim " << shape.headDim << " group " << shape.group
                     << " " << rt::dtypeName(shape.dtype) << " keys "
                     << int(batch.keys));
        bool last = &batch == &batches.all.back();
        ASSERT_NO_FATAL_FAILURE(runBatch(shape, batch, places, path,
                                         onPTX && (last || all),
                                         last || all ? together : ""));
      }
    }
  }

private:
  bool carriesState = false, readsTable = false;
  bool ranksByNorm = false, rounded = false;
  /// How far a score may move where fp32 cannot tell two values apart that are
  /// ranked: two neighbours swap, seldom three.
  int swap = 0;
  std::set<std::string> compiled;

  std::string library(const Shape &shape, const std::string &chip, bool warps,
                      const std::string &option = "") {
    std::string name = stemOf(file);
    std::string path =
        workDir + "/" + name + "_" + std::to_string(shape.headDim) + "_" +
        std::to_string(shape.group) + "_" + rt::dtypeName(shape.dtype) + "_" +
        chip + (warps ? "_warps" : "") + option + ".so";
    std::string command =
        compiler + " " + file + " --emit=library --chip=" + chip +
        " --host-forms=" + (warps ? "both" : "threads") + " -o " + path + " " +
        option + " --shape head_dim=" + std::to_string(shape.headDim) +
        ",group=" + std::to_string(shape.group) +
        ",dtype=" + rt::dtypeName(shape.dtype);
    // Prompts are short here: of some, candidates are listed all the same.
    if (shape.dtype == KVC_F16)
      command += " --lists-above=0";
    if (compiled.insert(path).second)
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return path;
  }

  /// Where all queries or an output projection are multiplied, a library with PTX for
  /// sm_90a, which has forms for warpgroups if there are any for the shape; else nothing.
  std::string forWarpgroups(const Shape &shape) {
    constexpr int64_t many = 10000;
    bool multiplies = ranksByNorm || queriesFor(policy, many) == many;
    if (shape.dtype == KVC_F32 || !multiplies)
      return "";
    return library(shape, "sm_90", /*warps=*/false, "--chip=sm_90a");
  }

  /// The layers of a batch, in order: of one model where state is carried.
  void runBatch(const Shape &shape, const Batch &batch,
                const std::vector<Place> &places, const std::string &path,
                bool onPTX, const std::string &ofWarpgroups) {
    auto open = [&](const std::string &path, uint64_t seed,
                    kvc_target_kind kind = KVC_HOST) {
      kvc_target target = {};
      target.kind = kind;
      target.seed = seed;
      return openEvictor(path, target, shape, batch.sequences);
    };
    std::unique_ptr<rt::Evictor> plain = open(path, 0), given = open(path, 0),
                                 seeded[] = {open(path, 1), open(path, 2)};
    std::unique_ptr<rt::Evictor> ptx, together;
    if (onPTX) {
      ptx = open(path, 1, KVC_PTX);
      ptx->runAtOnce();
    }
    if (!ofWarpgroups.empty())
      together = open(ofWarpgroups, 1, KVC_PTX);
    seeded[1]->runAtOnce();
    // Norms computed only where they can decide must not change what is kept.
    // Nor must what is prepared of the weights, and used again.
    std::unique_ptr<rt::Evictor> pruned, prepared;
    if (ranksByNorm && batch.keys != Keys::Equal && batch.sequences.size() < 3)
      pruned = open(library(shape, "none", false, "--prune-norms"), 0);
    if (pruned && batch.sequences.size() == 1) {
      prepared = open(library(shape, "none", false, "--prune-norms"), 0);
      prepared->keepPrepared();
    }
    std::vector<std::vector<double>> keptLayers;
    for (auto [tokens, budget] : batch.sequences)
      keptLayers.emplace_back(tokens);
    for (auto [layer, layers] : places) {
      SCOPED_TRACE(testing::Message() << "layer " << layer << "/" << layers);
      std::vector<float> table =
          Problem::table(layers, shape.kvHeads * shape.group);
      std::vector<Problem> problems;
      for (size_t s = 0; s < batch.sequences.size(); ++s) {
        auto [tokens, budget] = batch.sequences[s];
        problems.emplace_back(shape, tokens, budget, batch.keys,
                              7 * tokens + budget + (carriesState ? layer : 0),
                              queriesFor(policy, tokens));
        problems.back().layer.layer = layer;
        problems.back().layer.layers = layers;
        problems.back().layer.keptLayers = keptLayers[s];
        problems.back().layer.table = {table.begin(), table.end()};
      }
      const std::vector<float> *read = readsTable ? &table : nullptr;
      rt::KeptLayer first = evict(*plain, problems, read, false);
      rt::KeptLayer withLse = evict(*given, problems, read, true);
      std::vector<reference::Kept> wanted;
      for (size_t s = 0; s < problems.size(); ++s) {
        SCOPED_TRACE(testing::Message() << "T " << batch.sequences[s].first
                                        << " B " << batch.sequences[s].second);
        auto want = reference::interpret(policy, problems[s].layer);
        ASSERT_TRUE(mlir::succeeded(want));
        wanted.push_back(*want);
        check(problems[s], first.sequences[s], *want);
        // The same set, but for ties, with the log-sum-exp given. Ties may have
        // changed the state of later layers.
        if (!carriesState || layer == 0)
          check(problems[s], withLse.sequences[s], *want);
        for (int32_t t : std::set<int32_t>(first.sequences[s].indices.begin(),
                                           first.sequences[s].indices.end()))
          ++keptLayers[s][t];
      }
      if (pruned) {
        rt::KeptLayer other = evict(*pruned, problems, read, false);
        expectNone(compareRows(first, other));
        for (int i = 0; prepared && i < 2; ++i)
          expectNone(
              compareBytes(other, evict(*prepared, problems, read, false)));
      }
      // The same bytes as of threads, whatever their order; and in one call, where the
      // kernel that lists kept rows may move them.
      for (auto &other : seeded)
        expectNone(compareBytes(first, evict(*other, problems, read, false)));
      auto checkAll = [&](const rt::KeptLayer &other) {
        for (size_t s = 0; s < problems.size(); ++s)
          if (!carriesState || layer == 0)
            check(problems[s], other.sequences[s], wanted[s]);
      };
      // Its sums have another order.
      if (together)
        checkAll(evict(*together, problems, read, false));
      if (ptx) {
        rt::KeptLayer other = evict(*ptx, problems, read, false);
        checkAll(other);
        // Sums of products of fp32 may be fused, and are on a GPU.
        if (shape.dtype != KVC_F32)
          expectNone(compareBytes(first, other));
      }
    }
  }

  void check(const Problem &problem, const rt::KeptSequence &got,
             const reference::Kept &want) {
    Tolerance margin(want, slackOf(rounded, problem.shape.dtype), swap);
    expectNone(judge(problem, got, want, margin));
  }
};

} // namespace

int main(int argc, char **argv) {
  return runPolicyTests<PolicyTest>(argc, argv, "Policy");
}
