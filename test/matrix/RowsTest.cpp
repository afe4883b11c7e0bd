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
#include <functional>
#include <ranges>

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
    std::string command = compiler + " " + file + " --emit=library --chip=" +
                          (runsPTX(shape) ? "sm_90" : "none") + " -o " + path +
                          " --shape " + shapeText + " --shape " + shapeText +
                          ",cache=ragged";
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
        Owners owners = ownersOf(from);
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

  /// Bytes that no kept row has are what they were.
  void expectUntouched(const Laid &into, std::vector<std::byte> before) {
    size_t row = into.view.head_dim * rt::dtypeBytes(into.view.dtype);
    for (uint32_t s = 0; s < batch; ++s)
      for (uint32_t g = 0; g < into.view.kv_heads; ++g)
        for (uint32_t r = 0;
             r < uint32_t(into.counts[s * into.view.kv_heads + g]); ++r) {
          auto [k, v] = into.placesOf(s, g, r);
          for (size_t at : {k, v})
            std::copy_n(into.memory.begin() + ptrdiff_t(at), row,
                        before.begin() + ptrdiff_t(at));
        }
    EXPECT_TRUE(before == into.memory) << "memory without kept rows changed";
  }

  /// Which heads have rows in the pages of each entry of the tables: [entry of the
  /// table] of head numbers.
  using Owners = std::vector<std::vector<uint32_t>>;
  Owners ownersOf(const Laid &laid) {
    Owners owners(laid.table.size());
    const kvc_cache_view &view = laid.view;
    for (uint32_t i = 0; isPagedView(laid) && i < batch * view.kv_heads; ++i)
      for (int32_t r = 0; r < laid.counts[i]; ++r) {
        std::vector<uint32_t> &entry = owners[entryOf(laid, i, r)];
        if (entry.empty() || entry.back() != i)
          entry.push_back(i);
      }
    return owners;
  }
  static bool isPagedView(const Laid &laid) {
    return laid.view.kind == KVC_PAGED;
  }
  static size_t listOf(const Laid &laid, uint32_t head) {
    const kvc_cache_view &view = laid.view;
    return head / view.kv_heads * size_t(view.table.batch_stride) +
           head % view.kv_heads * size_t(view.table.head_stride);
  }
  static size_t entryOf(const Laid &laid, uint32_t head, int32_t row) {
    int32_t first = laid.offsets.empty() ? 0 : laid.offsets[head];
    return listOf(laid, head) + size_t(first + row) / laid.view.page_rows;
  }

  /// What is said to be free had rows and has none; and nothing is missing but pages in
  /// which rows of several heads lay behind one another, and those with kept rows of
  /// heads in the same slots on both sides.
  void judgeFreed(const Laid &now, const Owners &before,
                  const std::vector<int32_t> &freed) {
    Owners left = ownersOf(now);
    std::vector<bool> said(left.size());
    for (uint32_t i = 0; i < freed.size() / 2; ++i)
      for (int32_t e = 0; e < freed[2 * i + 1]; ++e) {
        size_t entry = listOf(now, i) + size_t(freed[2 * i] + e);
        ASSERT_LT(entry, said.size());
        EXPECT_FALSE(said[entry]) << "entry " << entry << " twice";
        said[entry] = true;
        EXPECT_TRUE(left[entry].empty() && !before[entry].empty())
            << "entry " << entry << " of head " << i;
      }
    bool ofHeads = now.view.table.head_stride != 0;
    bool behind = !ofHeads && now.view.k.head_stride == 0;
    bool together = !ofHeads && !behind;
    for (uint32_t i = 0; i < freed.size() / 2; ++i) {
      size_t list = listOf(now, i);
      size_t end = std::min(list + now.view.table_entries, left.size());
      auto isKept = [&](size_t entry) { return !left[entry].empty(); };
      for (size_t entry = list; entry < end; ++entry) {
        bool between =
            std::ranges::any_of(std::views::iota(list, entry), isKept) &&
            std::ranges::any_of(std::views::iota(entry, end), isKept);
        if (isKept(entry) || before[entry].empty() ||
            (behind && before[entry].size() > 1) || (together && between))
          continue;
        EXPECT_TRUE(said[entry]) << "entry " << entry << " is not reported";
      }
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
