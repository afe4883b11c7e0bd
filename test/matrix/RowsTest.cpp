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
#include "test/matrix/PlaceJudge.h"
#include "test/matrix/OpenedPolicy.h"
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

/// A cache, and the view that what is kept of it goes into.
struct Passage {
  kvc_cache_kind cache, into;
};
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
      library = compile(one.shape);
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
  std::string library;
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

  /// For prompts and for both kinds of cache.
  std::string compile(const Shape &shape) {
    std::string shapeText = "head_dim=" + std::to_string(shape.headDim) +
                            ",group=" + std::to_string(shape.group) +
                            ",dtype=" + rt::dtypeName(shape.dtype);
    std::string path = workDir + "/" + stemOf(file) + "_" +
                       std::to_string(shape.headDim) + ".so";
    std::string command =
        compiler + " " + file + " --emit=library --host-forms=threads --chip=" +
        (runsPTX(shape) ? "sm_90" : "none") + " -o " + path + " --shape " +
        shapeText + " --shape " + shapeText + ",cache=ragged";
    if (!readsRaw)
      command += " --shape " + shapeText + ",cache=paged";
    constexpr const char *caches[] = {"dense", "ragged", "paged"};
    for (const Passage &passage : passages)
      if (takes(passage))
        command += " --shape " + shapeText + ",cache=" + caches[passage.cache] +
                   ",into=" + caches[passage.into];
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return path;
  }

  using Module = std::unique_ptr<kvc_module, void (*)(kvc_module *)>;
  Module open(kvc_target_kind kind, uint64_t seed) {
    kvc_target target = {};
    target.struct_size = sizeof target;
    target.kind = kind;
    target.threads = 1;
    target.seed = seed;
    kvc_module *module = nullptr;
    EXPECT_EQ(kvc_module_load(library.c_str(), &target, &module), KVC_OK)
        << lastError();
    return {module, kvc_module_close};
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
    RowsInput input = inputFor(cache, shape, layer, random);
    input.layers = layers;
    Cache raw = cache;
    for (Head &head : raw.all)
      for (std::vector<float> &row : head.k)
        row = randomRow(random, dim, shape.dtype);

    Module host = open(KVC_HOST, 0), other = open(KVC_HOST, seed + 1);
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
    if (whole) {
      SCOPED_TRACE("prompt");
      Laid laid(cache, Layout::HeadsFirst), laidRaw(raw, Layout::HeadsFirst);
      RowsResult prompt =
          evictRows(host.get(), laid, &laidRaw, input, /*prompt=*/true);
      for (size_t i = 0; i < prompt.heads.size(); ++i)
        prompt.heads[i].positions = first.heads[i].positions;
      expectSame(prompt, first);
    }
    for (const Passage &passage : passages)
      if (takes(passage) && (whole || passage.cache != KVC_DENSE))
        runPassage((seed % 2 ? host : other).get(), passage, cache, raw, input,
                   first, seed);
    // The machine that runs PTX is slow.
    if (seed == 1 && runsPTX(shape)) {
      SCOPED_TRACE("PTX");
      Module ptx = open(KVC_PTX, 1);
      for (Layout layout : {Layout::Compacted, Layout::PagesNHD})
        if (!isPaged(layout) || !readsRaw)
          expectSame(first, evict(ptx.get(), cache, raw, layout, 4, input));
      for (const Passage &passage : passages)
        if (takes(passage) && passage.cache != KVC_DENSE)
          runPassage(ptx.get(), passage, cache, raw, input, first, seed);
      runWrongViews(ptx.get(), cache, raw, input);
      for (const Passage &passage : passages)
        if (takes(passage) && passage.cache != KVC_DENSE)
          runWrongInto(ptx.get(), passage, cache, raw, input);
    }
  }

  /// Kept rows in a view of their own, and in place: the same rows, and no byte of
  /// memory changes where none of them goes.
  void runPassage(kvc_module *module, const Passage &passage,
                  const Cache &cache, const Cache &raw, const RowsInput &input,
                  const RowsResult &want, uint32_t seed) {
    auto layoutOf = [&](kvc_cache_kind kind, uint32_t turn) {
      constexpr Layout slots[] = {Layout::Compacted, Layout::LeftPadded,
                                  Layout::Flat, Layout::TokensFirst};
      constexpr Layout pages[] = {Layout::PagesNHD,  Layout::PagesByHead,
                                  Layout::PagesKV,   Layout::PagesRagged,
                                  Layout::PagesList, Layout::PagesHND};
      return kind == KVC_DENSE   ? Layout::HeadsFirst
             : kind == KVC_PAGED ? pages[turn % std::size(pages)]
                                 : slots[turn % std::size(slots)];
    };
    Cache empty = cache;
    for (Head &head : empty.all)
      head = {};
    for (bool tail : {false, true})
      for (bool inPlace : {false, true}) {
        bool can = passage.cache == passage.into ||
                   (passage.cache == KVC_DENSE && passage.into == KVC_RAGGED);
        if ((inPlace && !can) ||
            (tail != seed % 2 && !std::getenv("KVC_ALL_CASES")))
          continue;
        uint32_t turn = seed * 2 + tail;
        SCOPED_TRACE(testing::Message()
                     << "from " << passage.cache << " into " << passage.into
                     << " turn " << turn << (tail ? " at the tail" : "")
                     << (inPlace ? " in place" : ""));
        Laid from(cache, layoutOf(passage.cache, turn), 4),
            rawLaid(raw, layoutOf(passage.cache, turn), 4),
            own(empty, layoutOf(passage.into, turn + seed), 8, input.tokens);
        Laid &into = inPlace ? from : own;
        const std::vector<std::byte> before = into.memory;
        PageOwners owners = ownersOf(from);
        Placement placement = {&into, tail, {}};
        RowsResult got =
            evictRows(module, from, readsRaw ? &rawLaid : nullptr, input,
                      passage.cache == KVC_DENSE, &placement);
        ASSERT_EQ(got.heads.size(), want.heads.size());
        for (size_t i = 0; i < got.heads.size(); ++i)
          got.heads[i].scores = want.heads[i].scores;
        expectSame(want, got);
        expectUntouched(into, before);
        if (inPlace && passage.into == KVC_PAGED)
          judgeFreed(from, owners, placement.freed);
      }
  }

  /// On a device that the host cannot look into, a wrong view reads nothing outside
  /// and is told. One of them each, by the policy's name; KVC_ALL_CASES=1: all.
  void runWrongViews(kvc_module *module, const Cache &cache, const Cache &raw,
                     const RowsInput &input) {
    size_t turn = stemOf(file).size() / 3 % std::size(wrongViews);
    for (const WrongView &wrong : wrongViews) {
      if ((&wrong != &wrongViews[turn] && !std::getenv("KVC_ALL_CASES")) ||
          (isPaged(wrong.layout) && readsRaw))
        continue;
      SCOPED_TRACE(wrong.name);
      Laid laid(cache, wrong.layout, 4), laidRaw(raw, wrong.layout, 4);
      wrong.change(laid);
      GuardedMemory memory(laid.memory, wrong.edge);
      for (kvc_plane *plane : {&laid.view.k, &laid.view.v})
        plane->data = memory.data + (static_cast<std::byte *>(plane->data) -
                                     laid.memory.data());
      RowsResult got =
          evictRows(module, laid, readsRaw ? &laidRaw : nullptr, input);
      EXPECT_TRUE(got.status & KVC_DATA_CACHE);
    }
  }

  /// Rows without a place are dropped, and nothing is written for them.
  void runWrongInto(kvc_module *module, const Passage &passage,
                    const Cache &cache, const Cache &raw,
                    const RowsInput &input) {
    bool paged = passage.into == KVC_PAGED;
    Cache empty = cache;
    for (Head &head : empty.all)
      head = {};
    auto call = [&](std::function<void(Laid &)> change, uint32_t room,
                    int32_t status) {
      Layout layout =
          passage.cache == KVC_PAGED ? Layout::PagesNHD : Layout::Compacted;
      Laid from(cache, layout, 4), rawLaid(raw, layout, 4),
          into(empty, paged ? Layout::PagesNHD : Layout::HeadsFirst, 4, room);
      change(into);
      GuardedMemory memory(into.memory, GuardedMemory::Edge::Back);
      for (kvc_plane *plane : {&into.view.k, &into.view.v})
        plane->data = memory.data + (static_cast<std::byte *>(plane->data) -
                                     into.memory.data());
      Placement placement = {&into, false, {}};
      RowsResult got = evictRows(module, from, readsRaw ? &rawLaid : nullptr,
                                 input, false, &placement);
      EXPECT_TRUE(got.status & status) << "status " << got.status;
    };
    {
      SCOPED_TRACE("slots for one row");
      call([](Laid &into) { into.view.slots = into.view.table_entries = 1; }, 1,
           KVC_DATA_CAPACITY);
    }
    if (paged) {
      SCOPED_TRACE("page behind the pool");
      call(
          [](Laid &into) {
            std::ranges::fill(into.table, int32_t(into.view.pages));
          },
          input.tokens, KVC_DATA_CACHE);
    }
  }

  RowsInput inputFor(const Cache &cache, const Shape &shape, int64_t layer,
                     Random &random) {
    RowsInput input;
    input.layer = layer;
    input.group = uint32_t(shape.group);
    auto qHeads = uint32_t(shape.kvHeads * shape.group);
    int64_t most =
        *std::max_element(cache.lengths.begin(), cache.lengths.end());
    input.tokens = uint32_t(most);
    input.queries = uint32_t(queriesFor(policy, 1 << 20));
    policy.walk([&](AttentionOp attention) {
      if (attention.readsAll() || attention.readsNew())
        input.queries = uint32_t(most);
    });
    for (uint32_t i = 0; i < batch * qHeads * input.queries; ++i) {
      input.q.push_back(randomRow(random, cache.dim, cache.dtype));
      for (float &x : input.q.back())
        x *= 4; // exact, and sharp enough that scores differ
    }
    for (int32_t length : cache.lengths)
      input.budgets.push_back(1 + int32_t(random() % uint32_t(length)));
    input.hidden = 24;
    for (uint32_t i = 0; i < input.hidden * qHeads; ++i)
      input.wo.push_back(randomRow(random, cache.dim, cache.dtype));
    input.table = Problem::table(8, qHeads);
    for (int64_t i = 0; readsState && i < batch * most; ++i)
      input.keptLayers.push_back(int32_t(random() % uint32_t(layer + 1)));
    addStates(cache, random, input);
    return input;
  }

  /// In three runs of four rows carry something, and the run says what is new: nothing,
  /// a few queries or all.
  void addStates(const Cache &cache, Random &random, RowsInput &input) const {
    if (!states || random() % 4 == 0)
      return;
    for (int32_t length : cache.lengths)
      input.newQueries.push_back(
          int32_t(random() % uint32_t(random() % 2 ? length + 1 : 4)) %
          (length + 1));
    input.states.resize(states);
    for (auto &state : input.states)
      for (const Head &head : cache.all) {
        state.emplace_back();
        for (size_t r = 0; r < head.k.size(); ++r)
          state.back().push_back(float(random() % 1000) / 250);
      }
  }

  RowsResult evict(kvc_module *module, const Cache &cache, const Cache &raw,
                   Layout layout, uint32_t page, const RowsInput &input) {
    Laid laid(cache, layout, page), laidRaw(raw, layout, page);
    return evictRows(module, laid, readsRaw ? &laidRaw : nullptr, input);
  }

  void expectSame(const RowsResult &a, const RowsResult &b) {
    EXPECT_EQ(a.status, b.status);
    EXPECT_EQ(a.keptLayers, b.keptLayers);
    for (size_t i = 0; i < a.heads.size(); ++i) {
      EXPECT_EQ(a.heads[i].indices, b.heads[i].indices) << "head " << i;
      EXPECT_TRUE(a.heads[i] == b.heads[i]) << "bytes of head " << i;
    }
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
