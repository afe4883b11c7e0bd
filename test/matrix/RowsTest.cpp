//===- RowsTest.cpp - every policy on caches of rows ----------------------===//
//
// Caches whose heads have rows of their own, as an eviction leaves them behind:
// what a policy keeps must be what the reference keeps, which knows tokens by their
// positions and no rows; with the same bytes wherever the rows lie, dense, ragged or
// in pages, on the host and by PTX, and wherever kept rows go: packed, into a view, in
// place. Where all tokens have rows, the bytes are those of the prompt.
//
// usage: rows_test KVC_OPT WORK_DIR POLICY.mlir...
//
//===----------------------------------------------------------------------===//

#include "dialect/reference/Interpreter.h"
#include "kvc/host.h"
#include "kvc/ptx.h"
#include "runtime/base/DType.h"
#include "test/matrix/OpenedPolicy.h"
#include "test/matrix/Passages.h"
#include "test/matrix/PolicyTests.h"
#include "test/matrix/Problem.h"
#include "test/matrix/RowsReference.h"
#include "test/matrix/Tolerance.h"
#include "test/matrix/WrongViews.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>

using namespace kvc;
using namespace kvc::test;

namespace {

struct Case {
  Shape shape;
  int32_t most; // tokens of a sequence
};
const Case cases[] = {{{2, 4, 64, KVC_BF16}, 300},
                      {{3, 2, 32, KVC_F32}, 150},
                      {{1, 3, 80, KVC_F16}, 90}};
constexpr uint32_t batch = 2;

/// Into views.
constexpr Passage passages[] = {
    {KVC_RAGGED, KVC_RAGGED}, {KVC_PAGED, KVC_PAGED},  {KVC_DENSE, KVC_PAGED},
    {KVC_RAGGED, KVC_PAGED},  {KVC_PAGED, KVC_RAGGED}, {KVC_DENSE, KVC_RAGGED}};

class RowsTest : public OpenedPolicy {
public:
  using OpenedPolicy::OpenedPolicy;

  void TestBody() override {
    ASSERT_NO_FATAL_FAILURE(readPolicy());
    std::vector<std::pair<int64_t, int64_t>> places{{0, 1}};
    policy.walk([&](mlir::Operation *op) {
      if (mlir::isa<LayerOp, LayersOp, AllocateLayersOp, AllocateTableOp,
                    KeptLayersOp>(op))
        places = {{0, 1}, {1, 3}};
      readsState |= mlir::isa<KeptLayersOp>(op);
      readsRaw |= llvm::is_contained(needsOf(op).inputs, EngineInput::RawKeys);
      if (auto keep = mlir::dyn_cast<KeepOp>(op))
        states = keep.getCarried().size();
      slow |= mlir::isa<ProjectedNormOp>(op);
      if (auto segment = mlir::dyn_cast<SegmentOp>(op))
        swap |= 2 * (segment.getKind() == SegmentKind::Rank);
      if (auto attention = mlir::dyn_cast<AttentionOp>(op))
        rounded |= attention.getRounded();
    });
    // One shape each, by the policy's name; KVC_ALL_CASES=1: all of them.
    size_t turn = stemOf(file).size() % std::size(cases);
    for (const Case &one : cases) {
      if (&one != &cases[turn] && !std::getenv("KVC_ALL_CASES"))
        continue;
      compile(one.shape);
      for (auto [layer, layers] : places)
        for (uint32_t seed = 0; seed < (slow ? 2 : 4); ++seed) {
          SCOPED_TRACE(testing::Message()
                       << "head_dim " << one.shape.headDim << " layer " << layer
                       << "/" << layers << " seed " << seed);
          ASSERT_NO_FATAL_FAILURE(runCase(one, layer, layers, seed));
        }
    }
  }

private:
  std::string library, onPTX; // the second for one kind of cache
  bool readsRaw = false, readsState = false, rounded = false, slow = false;
  int swap = 0;
  size_t states = 0; // numbers that each row carries

  static bool runsPTX(const Shape &shape) { return shape.kvHeads == 1; }

  /// One passage each for those with short names, both in place where rows carry
  /// something; KVC_ALL_CASES=1: all of them.
  bool takes(const Passage &passage) const {
    if (passage.cache == KVC_PAGED && readsRaw)
      return false;
    size_t own = size_t(&passage - passages);
    return std::getenv("KVC_ALL_CASES") || (states && own < 2) ||
           own == (stemOf(file).size() - 3) % (4 * std::size(passages));
  }

  static kvc_cache_kind kindOf(Layout layout) {
    return isPaged(layout) ? KVC_PAGED : KVC_RAGGED;
  }

  /// PTX takes longer to compile and to run: one kind of cache of rows each, by the
  /// policy's name; KVC_ALL_CASES=1: both.
  bool isOnPTX(kvc_cache_kind cache) const {
    if (cache == KVC_DENSE || (cache == KVC_PAGED && readsRaw))
      return false;
    bool paged = !readsRaw && stemOf(file).size() / std::size(cases) % 2;
    return std::getenv("KVC_ALL_CASES") ||
           cache == (paged ? KVC_PAGED : KVC_RAGGED);
  }

  /// For prompts and for both kinds of cache, and PTX for its own.
  void compile(const Shape &shape) {
    std::string shapeText = "head_dim=" + std::to_string(shape.headDim) +
                            ",group=" + std::to_string(shape.group) +
                            ",dtype=" + rt::dtypeName(shape.dtype);
    auto make = [&](const char *suffix, const char *chip, auto has) {
      std::string path = workDir + "/" + stemOf(file) + "_" +
                         std::to_string(shape.headDim) + suffix;
      std::string command =
          compiler + " " + file +
          " --emit=library --host-forms=threads --chip=" + chip + " -o " + path;
      constexpr const char *caches[] = {"dense", "ragged", "paged"};
      for (kvc_cache_kind cache : {KVC_DENSE, KVC_RAGGED, KVC_PAGED})
        if (has(cache) && !(cache == KVC_PAGED && readsRaw))
          command += " --shape " + shapeText + ",cache=" + caches[cache];
      for (const Passage &passage : passages)
        if (takes(passage) && has(passage.cache))
          command += " --shape " + shapeText +
                     ",cache=" + caches[passage.cache] +
                     ",into=" + caches[passage.into];
      if (shape.dtype == KVC_F16) // as of prompts (MatrixTest.cpp)
        command += " --lists-above=0";
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
      return path;
    };
    library = make(".so", "none", [](kvc_cache_kind) { return true; });
    if (runsPTX(shape))
      onPTX = make(".ptx.so", "sm_90",
                   [&](kvc_cache_kind cache) { return isOnPTX(cache); });
  }

  void runCase(const Case &one, int64_t layer, int64_t layers, uint32_t seed) {
    const Shape &shape = one.shape;
    Random random(seed * 16 + uint32_t(layer));
    auto heads = uint32_t(shape.kvHeads), dim = uint32_t(shape.headDim);
    // The first seed has all tokens.
    bool whole = seed == 0;
    Cache cache =
        whole ? wholeCache(random, batch, heads, dim, shape.dtype, one.most)
              : randomCache(random, batch, heads, dim, shape.dtype, one.most);
    RowsInput input = drawInput(policy, cache, shape.group, layer, random);
    input.layers = layers;
    Cache raw = cache;
    for (Head &head : raw.all)
      for (std::vector<float> &row : head.k)
        row = randomRow(random, dim, shape.dtype);

    Module host = openLibrary(library, KVC_HOST, 0),
           other = openLibrary(library, KVC_HOST, seed + 1);
    RowsResult first =
        evict(host.get(), cache, raw, Layout::Compacted, 1, input);
    judge(cache, raw, shape, input, first);
    for (auto [layout, page] : {std::pair(Layout::HeadsFirst, 1u),
                                {Layout::LeftPadded, 1},
                                {Layout::Flat, 1},
                                {Layout::PagesNHD, 16},
                                {Layout::PagesByHead, 1},
                                {Layout::PagesKV, 4},
                                {Layout::PagesList, 8},
                                {Layout::PagesRagged, 32}}) {
      // Every other layout, the odd or the even ones by the seed.
      if ((isPaged(layout) && readsRaw) ||
          (int(layout) % 2 != int(seed % 2) && !std::getenv("KVC_ALL_CASES")))
        continue;
      SCOPED_TRACE(testing::Message() << "layout " << int(layout));
      expectSame(first, evict(other.get(), cache, raw, layout, page, input));
    }
    if (states) {
      // Nobody who does not ask for what rows carry keeps other rows.
      SCOPED_TRACE("not carried");
      RowsInput other = input;
      other.carries = false;
      RowsResult got =
          evict(host.get(), cache, raw, Layout::Compacted, 1, other);
      for (size_t i = 0; i < got.heads.size(); ++i)
        got.heads[i].states = first.heads[i].states;
      expectSame(first, got);
    }
    RowsResult ofPrompt;
    if (whole) {
      SCOPED_TRACE("prompt");
      Laid laid(cache, Layout::HeadsFirst), laidRaw(raw, Layout::HeadsFirst);
      RowsResult prompt =
          evictRows(host.get(), laid, &laidRaw, input, /*prompt=*/true);
      for (size_t i = 0; i < prompt.heads.size(); ++i)
        prompt.heads[i].positions = first.heads[i].positions;
      ofPrompt = prompt;
      for (size_t i = 0; i < prompt.heads.size(); ++i) {
        RowsKept &kept = prompt.heads[i];
        const RowsKept &ofRows = first.heads[i];
        // Sums over queries are made in another order: of two warps.
        expectNear(kept.scores, ofRows.scores);
        ASSERT_EQ(kept.states.size(), ofRows.states.size());
        for (size_t n = 0; n < ofRows.states.size(); ++n)
          expectNear(kept.states[n], ofRows.states[n]);
        kept.scores = ofRows.scores;
        kept.states = ofRows.states;
      }
      expectSame(prompt, first);
    }
    for (const Passage &passage : passages)
      if (takes(passage) && (whole || passage.cache != KVC_DENSE))
        judgePassage((seed % 2 ? host : other).get(), passage, cache,
                     rawOf(raw), input,
                     passage.cache == KVC_DENSE ? ofPrompt : first, seed);
    // The machine that runs PTX is slow.
    if (seed == 1 && runsPTX(shape)) {
      SCOPED_TRACE("PTX");
      Module ptx = openLibrary(onPTX, KVC_PTX, 1);
      for (Layout layout : {Layout::Compacted, Layout::PagesNHD})
        if (isOnPTX(kindOf(layout)))
          expectSame(first, evict(ptx.get(), cache, raw, layout, 4, input));
      for (const Passage &passage : passages)
        if (takes(passage) && isOnPTX(passage.cache))
          judgePassage(ptx.get(), passage, cache, rawOf(raw), input, first,
                       seed);
      runWrongViews(ptx.get(), cache, raw, input);
      for (const Passage &passage : passages)
        if (takes(passage) && isOnPTX(passage.cache))
          judgeWrongInto(ptx.get(), passage, cache, rawOf(raw), input);
    }
  }

  /// The same numbers, but for what fp32 rounds; NaN is the same as itself.
  static void expectNear(const std::vector<float> &a,
                         const std::vector<float> &b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                  std::abs(a[i] - b[i]) <= 2e-5f * (1 + std::abs(b[i])))
          << i << ": " << a[i] << ", of rows " << b[i];
  }

  /// On a device that the host cannot look into, a wrong view reads nothing outside
  /// and is told. One of them each, by the policy's name; KVC_ALL_CASES=1: all.
  void runWrongViews(kvc_module *module, const Cache &cache, const Cache &raw,
                     const RowsInput &input) {
    std::vector<const WrongView *> views;
    for (const WrongView &wrong : wrongViews)
      if (isOnPTX(kindOf(wrong.layout)))
        views.push_back(&wrong);
    if (!std::getenv("KVC_ALL_CASES"))
      views = {views[stemOf(file).size() / 3 % views.size()]};
    for (const WrongView *wrong : views) {
      SCOPED_TRACE(wrong->name);
      Laid laid(cache, wrong->layout, 4), laidRaw(raw, wrong->layout, 4);
      wrong->change(laid);
      GuardedMemory memory(laid.memory, wrong->edge);
      for (kvc_plane *plane : {&laid.view.k, &laid.view.v})
        plane->data = memory.data + (static_cast<std::byte *>(plane->data) -
                                     laid.memory.data());
      RowsResult got =
          evictRows(module, laid, readsRaw ? &laidRaw : nullptr, input);
      EXPECT_TRUE(got.status & KVC_DATA_CACHE);
    }
  }

  const Cache *rawOf(const Cache &raw) const {
    return readsRaw ? &raw : nullptr;
  }

  RowsResult evict(kvc_module *module, const Cache &cache, const Cache &raw,
                   Layout layout, uint32_t page, const RowsInput &input) {
    Laid laid(cache, layout, page), laidRaw(raw, layout, page);
    return evictRows(module, laid, readsRaw ? &laidRaw : nullptr, input);
  }

  void judge(const Cache &cache, const Cache &raw, const Shape &shape,
             const RowsInput &input, const RowsResult &got) {
    for (uint32_t s = 0; s < batch; ++s) {
      reference::Layer layer = layerOf(policy, cache, raw, input, s);
      auto want = reference::interpret(policy, layer, {});
      ASSERT_TRUE(mlir::succeeded(want));
      Tolerance margin(*want, slackOf(rounded, shape.dtype), swap);
      for (uint32_t g = 0; g < cache.heads; ++g) {
        SCOPED_TRACE(testing::Message()
                     << "sequence " << s << " T " << layer.tokens << " B "
                     << layer.budget << " head " << g << " rows "
                     << cache.head(s, g).k.size());
        judgeHead(cache.head(s, g), g, shape, *want,
                  got.heads[s * cache.heads + g], margin);
      }
    }
    EXPECT_EQ(got.status, 0);
    judgeState(input, got, cache.heads);
  }

  /// Every token that some head has kept is counted once.
  void judgeState(const RowsInput &input, const RowsResult &got,
                  uint32_t heads) {
    std::vector<int32_t> want = input.keptLayers;
    std::vector<bool> counted(want.size());
    for (size_t i = 0; readsState && i < got.heads.size(); ++i)
      for (int32_t position : got.heads[i].positions) {
        size_t at = i / heads * (want.size() / batch) + size_t(position);
        want[at] += !counted[at];
        counted[at] = true;
      }
    EXPECT_EQ(got.keptLayers, want);
  }

  void judgeHead(const Head &head, int64_t g, const Shape &shape,
                 const reference::Kept &want, const RowsKept &got,
                 Margin &margin) {
    std::vector<int64_t> tokens;
    size_t row = size_t(shape.headDim) * rt::dtypeBytes(shape.dtype);
    for (size_t i = 0; i < got.indices.size(); ++i) {
      auto r = size_t(got.indices[i]);
      ASSERT_LT(r, head.k.size());
      tokens.push_back(head.positions[r]);
      EXPECT_EQ(got.positions[i], head.positions[r]);
      for (auto [bytes, rows] : {std::pair(&got.k, &head.k), {&got.v, &head.v}})
        EXPECT_EQ(std::memcmp(bytes->data() + i * row,
                              rt::narrow((*rows)[r].data(),
                                         size_t(shape.headDim), shape.dtype)
                                  .data(),
                              row),
                  0)
            << "bytes of row " << r;
    }
    for (size_t i = 1; i < tokens.size(); ++i)
      EXPECT_LT(tokens[i - 1], tokens[i]);
    EXPECT_EQ(tokens.size(), want.tokens[g].size());
    std::vector<int64_t> differ;
    std::set_symmetric_difference(tokens.begin(), tokens.end(),
                                  want.tokens[g].begin(), want.tokens[g].end(),
                                  std::back_inserter(differ));
    for (int64_t t : differ)
      EXPECT_TRUE(margin.keepsEither(g, t)) << "token " << t;
    ASSERT_EQ(got.states.size(), want.carried.size());
    for (size_t j = 0; j < got.states.size(); ++j)
      for (size_t i = 0; i < tokens.size(); ++i) {
        const reference::Tensor &all = want.carried[j].ofTokens;
        double number = all.data[size_t(g * all.shape[1] + tokens[i])];
        EXPECT_TRUE(carriedMayBe(got.states[j][i], number))
            << "token " << tokens[i] << " carries " << want.carried[j].name
            << " = " << got.states[j][i] << ", not " << number;
      }
    for (size_t i = 0; i < got.scores.size(); ++i)
      EXPECT_TRUE(margin.scoreMayBe(g, head.positions[i], got.scores[i]))
          << "score " << got.scores[i] << " of token " << head.positions[i]
          << ", not " << want.scores[g][head.positions[i]];
  }
};

} // namespace

int main(int argc, char **argv) {
  kvc_enable_host();
  kvc_enable_ptx();
  return runPolicyTests<RowsTest>(argc, argv, "Rows");
}
