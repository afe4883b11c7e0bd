//===- RowsTest.cpp - every policy on caches of rows ----------------------===//
//
// Caches whose heads have rows of their own, as an eviction leaves them behind:
// what a policy keeps must be what the reference keeps, which knows tokens by their
// positions and no rows; with the same bytes wherever the rows lie, dense, ragged or
// in pages, on the host and by PTX. Where all tokens have rows, the bytes are those of
// the prompt.
//
// usage: rows_test KVC_OPT WORK_DIR POLICY.mlir...
//
//===----------------------------------------------------------------------===//

#include "dialect/reference/Interpreter.h"
#include "kvc/host.h"
#include "kvc/ptx.h"
#include "runtime/base/DType.h"
#include "test/matrix/GuardedMemory.h"
#include "test/matrix/RowsCall.h"
#include "test/matrix/PolicyTests.h"
#include "test/matrix/Tolerance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

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

class RowsTest : public testing::Test {
public:
  explicit RowsTest(std::string file) : file(std::move(file)) {}

  void TestBody() override {
    context.loadDialect<KVCDialect, mlir::arith::ArithDialect,
                        mlir::math::MathDialect>();
    source = mlir::parseSourceFile<mlir::ModuleOp>(file, &context);
    ASSERT_TRUE(source) << file;
    policy = *source->getOps<PolicyOp>().begin();
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
  std::string file, library;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> source;
  PolicyOp policy;
  bool readsRaw = false, readsState = false, rounded = false, slow = false;
  int swap = 0;
  size_t states = 0; // numbers that each row carries

  static bool runsPTX(const Shape &shape) { return shape.kvHeads == 1; }

  /// For prompts and for both kinds of cache.
  std::string compile(const Shape &shape) {
    std::string shapeText = "head_dim=" + std::to_string(shape.headDim) +
                            ",group=" + std::to_string(shape.group) +
                            ",dtype=" + rt::dtypeName(shape.dtype);
    std::string path = workDir + "/" + stemOf(file) + "_" +
                       std::to_string(shape.headDim) + ".so";
    std::string command = compiler + " " + file + " --emit=library --chip=" +
                          (runsPTX(shape) ? "sm_90" : "none") + " -o " + path +
                          " --shape " + shapeText + " --shape " + shapeText +
                          ",cache=ragged";
    if (!readsRaw)
      command += " --shape " + shapeText + ",cache=paged";
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
    // The machine that runs PTX is slow.
    if (seed == 1 && runsPTX(shape)) {
      SCOPED_TRACE("PTX");
      Module ptx = open(KVC_PTX, 1);
      for (Layout layout : {Layout::Compacted, Layout::PagesNHD})
        if (!isPaged(layout) || !readsRaw)
          expectSame(first, evict(ptx.get(), cache, raw, layout, 4, input));
      runWrongViews(ptx.get(), cache, raw, input);
    }
  }

  /// On a device that the host cannot look into, a wrong view reads nothing outside
  /// and is told. One of them each, by the policy's name; KVC_ALL_CASES=1: all.
  void runWrongViews(kvc_module *module, const Cache &cache, const Cache &raw,
                     const RowsInput &input) {
    struct Wrong {
      const char *name;
      Layout layout;
      GuardedMemory::Edge edge;
      void (*change)(Laid &);
    };
    using Edge = GuardedMemory::Edge;
    const Wrong wrongs[] = {
        {"page behind the pool", Layout::PagesNHD, Edge::Back,
         [](Laid &laid) { laid.table[0] = int32_t(laid.view.pages); }},
        {"page in front of the pool", Layout::PagesNHD, Edge::Front,
         [](Laid &laid) { laid.table[0] = -1; }},
        {"count above the table", Layout::PagesNHD, Edge::Back,
         [](Laid &laid) { laid.counts.back() = 1 << 20; }},
        {"count above the slots", Layout::Compacted, Edge::Back,
         [](Laid &laid) { laid.counts.back() = 1 << 20; }},
        {"count below 0", Layout::Compacted, Edge::Front,
         [](Laid &laid) { laid.counts.front() = -1; }},
        {"offset behind the slots", Layout::Compacted, Edge::Back,
         [](Laid &laid) {
           laid.offsets.back() = int32_t(laid.view.slots) + 1;
         }},
        {"offset below 0", Layout::Compacted, Edge::Front,
         [](Laid &laid) { laid.offsets.front() = -2; }},
        {"positions that do not ascend", Layout::Compacted, Edge::Back,
         [](Laid &laid) { std::ranges::fill(laid.positions, 1); }},
        {"position below 0", Layout::Compacted, Edge::Back,
         [](Laid &laid) { std::ranges::fill(laid.positions, -5); }},
        {"length above max_tokens", Layout::Compacted, Edge::Back,
         [](Laid &laid) { laid.lengths.back() = 1 << 20; }},
        {"length of 0", Layout::Compacted, Edge::Back,
         [](Laid &laid) { laid.lengths.front() = 0; }},
    };
    size_t turn = stemOf(file).size() / 3 % std::size(wrongs);
    for (const Wrong &wrong : wrongs) {
      if ((&wrong != &wrongs[turn] && !std::getenv("KVC_ALL_CASES")) ||
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

  /// Tokens in the place of their positions, NaN where there are none.
  reference::Layer layerOf(const Cache &cache, const Cache &raw,
                           const Shape &shape, const RowsInput &input,
                           uint32_t s) {
    reference::Layer layer = {};
    int64_t d = cache.dim, heads = cache.heads, tokens = cache.lengths[s];
    layer.qHeads = heads * input.group;
    layer.kvHeads = heads;
    layer.headDim = d;
    layer.tokens = tokens;
    layer.queries = std::min<int64_t>(input.queries, tokens);
    layer.budget = input.budgets[s];
    layer.layer = input.layer;
    layer.layers = input.layers;
    layer.scale = 1 / std::sqrt(double(d));
    for (int64_t h = 0; h < layer.qHeads; ++h)
      for (int64_t i = input.queries - layer.queries; i < input.queries; ++i) {
        const std::vector<float> &row =
            input.q[(s * layer.qHeads + h) * input.queries + i];
        layer.q.insert(layer.q.end(), row.begin(), row.end());
      }
    layer.k.assign(heads * tokens * d, NAN);
    layer.v = layer.kRaw = layer.k;
    layer.rows.assign(heads, std::vector<bool>(tokens));
    for (int64_t g = 0; g < heads; ++g) {
      const Head &head = cache.head(s, uint32_t(g));
      for (size_t r = 0; r < head.k.size(); ++r) {
        int64_t t = head.positions[r], at = (g * tokens + t) * d;
        layer.rows[g][t] = true;
        std::copy(head.k[r].begin(), head.k[r].end(), &layer.k[at]);
        std::copy(head.v[r].begin(), head.v[r].end(), &layer.v[at]);
        const std::vector<float> &before = raw.head(s, uint32_t(g)).k[r];
        std::copy(before.begin(), before.end(), &layer.kRaw[at]);
      }
    }
    layer.hidden = input.hidden;
    for (const std::vector<float> &row : input.wo)
      layer.wo.insert(layer.wo.end(), row.begin(), row.end());
    layer.table.assign(input.table.begin(),
                       input.table.begin() + input.layers * layer.qHeads);
    if (readsState) {
      auto first = input.keptLayers.begin() +
                   s * (input.keptLayers.size() / cache.lengths.size());
      layer.keptLayers.assign(first, first + tokens);
    }
    layer.round = roundingTo(shape.dtype);
    if (!input.newQueries.empty())
      layer.newQueries = input.newQueries[s];
    auto names = carriedNames(
        mlir::cast<KeepOp>(policy.getBody().front().back()).getNamesAttr());
    for (size_t j = 0; j < input.states.size(); ++j) {
      std::vector<double> &numbers = layer.rowStates[names[j].str()];
      numbers.assign(size_t(heads * tokens), NAN);
      for (int64_t g = 0; g < heads; ++g) {
        const Head &head = cache.head(s, uint32_t(g));
        for (size_t r = 0; r < head.k.size(); ++r)
          numbers[size_t(g * tokens + head.positions[r])] =
              input.states[j][s * cache.heads + uint32_t(g)][r];
      }
    }
    return layer;
  }

  void judge(const Cache &cache, const Cache &raw, const Shape &shape,
             const RowsInput &input, const RowsResult &got) {
    for (uint32_t s = 0; s < batch; ++s) {
      reference::Layer layer = layerOf(cache, raw, shape, input, s);
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
