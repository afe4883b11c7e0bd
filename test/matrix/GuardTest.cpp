//===- GuardTest.cpp - kernels touch nothing outside their tensors --------===//
//
// Every tensor that a launch gets, scratch buffers too, ends at a page without access,
// and once begins behind one. Both forms of the host kernels, warps and threads, must
// keep the same bytes there as in plain memory: lanes that are not active, and rows
// behind the last one, are not read. Shapes are odd: no number of tokens is a multiple
// of a warp, no head a power of two.
//
// usage: guard_test KVC_OPT WORK_DIR POLICY.mlir...
//
//===----------------------------------------------------------------------===//

#include "runtime/base/DType.h"
#include "test/matrix/Eviction.h"
#include "test/matrix/ExpectFaults.h"
#include "test/matrix/GuardedDevice.h"
#include "test/matrix/HeldRows.h"
#include "test/matrix/OpenedPolicy.h"
#include "test/matrix/PolicyTests.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

using namespace kvc;
using namespace kvc::test;

namespace {

struct Case {
  Shape shape;
  Sequences sequences;
};
const Case cases[] = {
    {{2, 3, 40, KVC_F32}, {{150, 60}, {97, 45}}},
    {{1, 3, 72, KVC_BF16}, {{131, 50}, {203, 70}, {33, 40}}},
    {{3, 1, 40, KVC_F16}, {{213, 63}, {1, 1}}},
};
constexpr const char *caches[] = {"dense", "ragged", "paged"};

class GuardTest : public OpenedPolicy {
public:
  using OpenedPolicy::OpenedPolicy;

  void TestBody() override {
    ASSERT_NO_FATAL_FAILURE(readPolicy());
    bool readsRaw = false;
    policy.walk([&](mlir::Operation *op) {
      if (mlir::isa<KeptLayersOp>(op))
        layers = 2; // the second reads what the first has left behind
      readsTable |= mlir::isa<AllocateTableOp>(op);
      readsRaw |= llvm::is_contained(needsOf(op).inputs, EngineInput::RawKeys);
      if (auto keep = mlir::dyn_cast<KeepOp>(op))
        stateNames = carriedNames(keep.getNamesAttr());
    });
    std::vector<kvc_cache_kind> kinds{KVC_DENSE};
    if (runsOnRows())
      kinds.push_back(KVC_RAGGED);
    if (runsOnRows() && !readsRaw)
      kinds.push_back(KVC_PAGED);
    // A shape and a kind of cache each, by the policy's name; KVC_ALL_CASES=1: all.
    size_t turn = stemOf(file).size();
    for (size_t i = 0; i < std::size(cases); ++i)
      for (kvc_cache_kind cache : kinds) {
        if ((i != turn % std::size(cases) ||
             cache != kinds[turn / std::size(cases) % kinds.size()]) &&
            !std::getenv("KVC_ALL_CASES"))
          continue;
        SCOPED_TRACE(testing::Message()
                     << "head_dim " << cases[i].shape.headDim << " "
                     << rt::dtypeName(cases[i].shape.dtype) << " cache "
                     << caches[cache]);
        ASSERT_NO_FATAL_FAILURE(runCase(cases[i], cache));
      }
  }

private:
  bool readsTable = false;
  uint32_t layers = 1;
  llvm::SmallVector<mlir::StringAttr> stateNames; // of what rows carry

  bool runsOnRows() const {
    std::ifstream without(KVC_NO_ROWS);
    for (std::string name; without >> name;)
      if (name == stemOf(file))
        return false;
    return true;
  }

  std::string compile(const Shape &shape, kvc_cache_kind cache) {
    std::string shapeText = "head_dim=" + std::to_string(shape.headDim) +
                            ",group=" + std::to_string(shape.group) +
                            ",dtype=" + rt::dtypeName(shape.dtype) +
                            ",cache=" + caches[cache];
    std::string path = workDir + "/" + stemOf(file) + "_" +
                       std::to_string(shape.headDim) + caches[cache] + ".so";
    std::string command = compiler + " " + file +
                          " --emit=library --chip=none -o " + path +
                          " --shape " + shapeText;
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return path;
  }

  std::vector<Problem> problemsOf(const Case &one, kvc_cache_kind cache,
                                  uint32_t layer,
                                  const std::vector<float> &table) {
    std::vector<Problem> problems;
    for (auto [tokens, budget] : one.sequences) {
      Problem &problem =
          problems.emplace_back(one.shape, tokens, budget, Keys::Random,
                                7 * tokens + layer, queriesFor(policy, tokens));
      problem.layer.layer = layer;
      problem.layer.layers = layers;
      problem.layer.table = {table.begin(), table.end()};
      if (!stateNames.empty())
        problem.carry(stateNames, tokens + 31 * layer);
      if (cache != KVC_DENSE)
        problem.hold(drawRows(problem.layer, tokens + 101 * layer));
    }
    return problems;
  }

  void runCase(const Case &one, kvc_cache_kind cache) {
    std::string library = compile(one.shape, cache);
    auto open = [&](kvc_target_kind kind, uint64_t seed) {
      kvc_target target = {};
      target.kind = kind;
      target.seed = seed; // of threads; without one kernels run by warps
      target.threads = 1;
      return openEvictor(library, target, one.shape, one.sequences, cache);
    };
    // With the log-sum-exp given and without: kernels may have computed it.
    for (bool lse : {false, true}) {
      auto plain = open(KVC_HOST, 0);
      std::unique_ptr<rt::Evictor> guarded[] = {
          open(KVC_CUDA, 0), open(KVC_CUDA, 0), open(KVC_CUDA, 1),
          open(KVC_CUDA, 2)};
      std::vector<float> table =
          Problem::table(layers, one.shape.kvHeads * one.shape.group);
      const std::vector<float> *read = readsTable ? &table : nullptr;
      for (uint32_t layer = 0; layer < layers; ++layer) {
        std::vector<Problem> problems = problemsOf(one, cache, layer, table);
        guarding.sizes = sizesOf(one, problems, plain->manifest());
        rt::KeptLayer want = evict(*plain, problems, read, lse);
        for (auto &evictor : guarded) {
          size_t number = size_t(&evictor - guarded);
          guarding.edge = number % 2 ? GuardedMemory::Edge::Front
                                     : GuardedMemory::Edge::Back;
          SCOPED_TRACE(testing::Message()
                       << (number < 2 ? "warps" : "threads")
                       << (number % 2 ? " at the front" : " at the back"));
          rt::KeptLayer got = evict(*evictor, problems, read, lse);
          expectNone(compareBytes(want, got));
        }
        if (!lse && layer == 0)
          expectNoticed(*guarded[0], *guarded[2], problems, read);
      }
    }
  }

  /// Lengths that lie a number further than their memory, or nearer, end a run.
  static void expectNoticed(rt::Evictor &warps, rt::Evictor &threads,
                            const std::vector<Problem> &problems,
                            const std::vector<float> *table) {
    auto run = [&](rt::Evictor &evictor, GuardedMemory::Edge edge, int64_t by) {
      guarding.edge = edge;
      guarding.moved = rt::Argument::lengths;
      guarding.by = by;
      evict(evictor, problems, table, false);
      std::exit(0);
    };
    auto ends = testing::ExitedWithCode(outsideStatus);
    EXPECT_EXIT(run(warps, GuardedMemory::Edge::Back, 4), ends,
                "kernel .* of lengths");
    EXPECT_EXIT(run(threads, GuardedMemory::Edge::Front, -4), ends,
                "kernel .*: byte -4 of the .* of lengths");
  }

  /// Those that the executor calls with.
  rt::Symbols sizesOf(const Case &one, const std::vector<Problem> &problems,
                      const rt::Manifest &manifest) {
    const Shape &shape = one.shape;
    uint32_t tokens = 0, fresh = 0;
    for (const Problem &problem : problems) {
      rt::LayerSequence sequence = problem.sequence();
      tokens = std::max(tokens, sequence.tokens);
      fresh = std::max(fresh, sequence.newQueries.value_or(sequence.tokens));
    }
    rt::Symbols sizes = {};
    for (auto [symbol, value] :
         {std::pair(rt::Symbol::Batch, uint64_t(problems.size())),
          {rt::Symbol::QHeads, uint64_t(shape.kvHeads * shape.group)},
          {rt::Symbol::KvHeads, uint64_t(shape.kvHeads)},
          {rt::Symbol::HeadDim, uint64_t(shape.headDim)},
          {rt::Symbol::Tokens, tokens},
          {rt::Symbol::QRows,
           std::min(tokens, std::max(manifest.queriesOf(tokens, fresh), 1u))},
          {rt::Symbol::IndexCapacity, tokens}})
      sizes[size_t(symbol)] = value;
    return sizes;
  }
};

} // namespace

int main(int argc, char **argv) {
  enableGuardedDevice();
  return runPolicyTests<GuardTest>(argc, argv, "Guard");
}
