//===- MatrixTest.cpp - every policy against the reference ----------------===//
//
// Policies and held-out variants x shapes x lengths x budgets x ties: the host
// run of the kernels must keep what the reference in double keeps, but for ties
// within fp32 rounding, and copy K and V byte for byte. Batches have sequences
// of different lengths.
//
// usage: matrix_test KVC_OPT WORK_DIR POLICY.mlir...
//
//===----------------------------------------------------------------------===//

#include "dialect/reference/Interpreter.h"
#include "runtime/io/MappedFile.h"
#include "test/matrix/Problem.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

using namespace kvc;
using namespace kvc::test;

namespace {

std::string compiler, workDir;

/// Scores of fp32 kernels are sums of some hundred terms in another order than
/// the reference's: 2^-24 each, with room. Rounding weights to the model's type
/// moves single weights by a unit of that type when they lie on a boundary.
double tolerance(const std::string &policy, kvc_dtype dtype) {
  bool rounded = policy.find("kvpress") != std::string::npos;
  return !rounded || dtype == KVC_F32 ? 3e-5 : dtype == KVC_F16 ? 1e-3 : 4e-3;
}

struct Case {
  Shape shape;
  std::vector<std::pair<int64_t, int64_t>> sequences; // T, B
  Keys keys;
};

const Case cases[] = {
    {{2, 4, 64, KVC_F32}, {{300, 100}}, Keys::Random},
    {{2, 4, 64, KVC_F32}, {{130, 60}, {260, 60}, {40, 60}}, Keys::Repeated},
    {{2, 4, 64, KVC_BF16}, {{500, 120}, {77, 70}}, Keys::Random},
    {{2, 4, 64, KVC_BF16}, {{400, 90}}, Keys::Repeated},
    {{1, 8, 128, KVC_BF16}, {{1030, 200}}, Keys::Random},
    {{3, 1, 16, KVC_F16}, {{257, 80}, {100, 99}, {100, 100}}, Keys::Random},
    {{2, 3, 96, KVC_F16}, {{150, 70}}, Keys::Repeated},
    {{1, 7, 80, KVC_BF16}, {{200, 66}}, Keys::Random},
    {{1, 5, 20, KVC_F16}, {{160, 70}}, Keys::Random},
    {{2, 2, 32, KVC_F32}, {{200, 90}, {1, 1}, {33, 1}, {90, 32}}, Keys::Equal},
    {{2, 2, 32, KVC_F32}, {{64, 63}, {64, 5}, {65, 33}, {8, 3}}, Keys::Random},
};

/// A layer, and of how many.
using Place = std::pair<int64_t, int64_t>;

class PolicyTest : public testing::Test {
public:
  explicit PolicyTest(std::string file) : file(std::move(file)) {}

  void TestBody() override {
    context.loadDialect<KVCDialect, mlir::arith::ArithDialect,
                        mlir::math::MathDialect>();
    module = mlir::parseSourceFile<mlir::ModuleOp>(file, &context);
    ASSERT_TRUE(module) << file;
    policy = *module->getOps<PolicyOp>().begin();
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
      if (auto keep = mlir::dyn_cast<KeepOp>(op))
        merges = bool(keep.getDestination());
      if (auto attention = mlir::dyn_cast<AttentionOp>(op))
        allQueries |= attention.readsAll();
      // Where all keys are equal, rounding decides which head's scores are
      // larger, and with it the heads' budgets: test/cli/budgets.test instead.
      equalKeys &= !mlir::isa<AllocateHeadsOp>(op);
    });
    if (carriesState)
      places = {{0, 4}, {1, 4}, {2, 4}, {3, 4}};
    for (const Case &c : cases) {
      if (c.keys == Keys::Equal && !equalKeys)
        continue; // the policy's file says why
      SCOPED_TRACE(testing::Message()
                   << "head_dim " << c.shape.headDim << " group "
                   << c.shape.group << " " << rt::dtypeName(c.shape.dtype)
                   << " keys " << int(c.keys));
      ASSERT_NO_FATAL_FAILURE(runCase(c, places));
    }
  }

private:
  std::string file;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  PolicyOp policy;
  bool allQueries = false, carriesState = false, readsTable = false;
  bool merges = false, ranksByNorm = false;
  /// How far a score may move where fp32 cannot tell two values apart that are
  /// ranked: two neighbours swap, seldom three.
  int swap = 0;
  std::set<std::string> compiled;

  std::string library(const Shape &shape, const std::string &option = "") {
    std::string name = std::filesystem::path(file).stem().string();
    std::string path = workDir + "/" + name + "_" +
                       std::to_string(shape.headDim) + "_" +
                       std::to_string(shape.group) + "_" +
                       rt::dtypeName(shape.dtype) + option + ".so";
    std::string command =
        compiler + " " + file + " --emit=library --chip=none -o " + path + " " +
        option + " --shape head_dim=" + std::to_string(shape.headDim) +
        ",group=" + std::to_string(shape.group) +
        ",dtype=" + rt::dtypeName(shape.dtype);
    if (compiled.insert(path).second)
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return path;
  }

  /// The layers of a case, in order: of one model where state is carried.
  void runCase(const Case &c, const std::vector<Place> &places) {
    std::string path = library(c.shape);
    std::unique_ptr<rt::Evictor> plain = open(path, c, 0),
                                 given = open(path, c, 0),
                                 seeded[] = {open(path, c, 1),
                                             open(path, c, 2)};
    // Norms computed only where they can decide must not change what is kept.
    std::unique_ptr<rt::Evictor> pruned;
    if (ranksByNorm && c.keys != Keys::Equal && c.sequences.size() < 3)
      pruned = open(library(c.shape, "--prune-norms"), c, 0);
    std::vector<std::vector<double>> keptLayers;
    for (auto [tokens, budget] : c.sequences)
      keptLayers.emplace_back(tokens);
    for (auto [layer, layers] : places) {
      SCOPED_TRACE(testing::Message() << "layer " << layer << "/" << layers);
      std::vector<float> table =
          Problem::table(layers, c.shape.kvHeads * c.shape.group);
      std::vector<Problem> problems;
      for (size_t s = 0; s < c.sequences.size(); ++s) {
        auto [tokens, budget] = c.sequences[s];
        problems.emplace_back(c.shape, tokens, budget, c.keys,
                              7 * tokens + budget + (carriesState ? layer : 0),
                              allQueries);
        problems.back().layer.layer = layer;
        problems.back().layer.layers = layers;
        problems.back().layer.keptLayers = keptLayers[s];
        problems.back().layer.table = {table.begin(), table.end()};
      }
      rt::KeptLayer first = evict(*plain, problems, table, false);
      rt::KeptLayer withLse = evict(*given, problems, table, true);
      for (size_t s = 0; s < problems.size(); ++s) {
        SCOPED_TRACE(testing::Message() << "T " << c.sequences[s].first << " B "
                                        << c.sequences[s].second);
        auto want = reference::interpret(policy, problems[s].layer, {});
        ASSERT_TRUE(mlir::succeeded(want));
        check(problems[s], first.sequences[s], *want);
        // The same set, but for ties, with the log-sum-exp given. Ties may have
        // changed the state of later layers.
        if (!carriesState || layer == 0)
          check(problems[s], withLse.sequences[s], *want);
        for (int32_t t : std::set<int32_t>(first.sequences[s].indices.begin(),
                                           first.sequences[s].indices.end()))
          ++keptLayers[s][t];
      }
      if (pruned)
        expectSameRows(first, evict(*pruned, problems, table, false));
      // The same bytes whatever the order of threads.
      for (auto &other : seeded)
        expectSame(first, evict(*other, problems, table, false));
    }
  }

  static std::unique_ptr<rt::Evictor> open(const std::string &path,
                                           const Case &c, uint64_t seed) {
    kvc_target target = {};
    target.struct_size = sizeof target;
    target.seed = seed;
    auto evictor = std::make_unique<rt::Evictor>(path, target);
    kvc_plan_options options = {};
    options.struct_size = sizeof options;
    options.head_dim = uint32_t(c.shape.headDim);
    options.kv_heads = uint32_t(c.shape.kvHeads);
    options.q_heads = uint32_t(c.shape.kvHeads * c.shape.group);
    options.dtype = c.shape.dtype;
    options.max_batch = uint32_t(c.sequences.size());
    for (auto [tokens, budget] : c.sequences)
      options.max_tokens = std::max(options.max_tokens, uint32_t(tokens));
    evictor->plan(options);
    return evictor;
  }

  rt::KeptLayer evict(rt::Evictor &evictor,
                      const std::vector<Problem> &problems,
                      const std::vector<float> &table, bool lse) {
    std::vector<rt::LayerSequence> batch;
    for (const Problem &problem : problems) {
      batch.push_back(problem.sequence());
      if (lse)
        batch.back().lse = problem.lse.data();
    }
    if (readsTable)
      evictor.setTable(table);
    const reference::Layer &any = problems.front().layer;
    return evictor.evict(batch, 0, true, uint32_t(any.layer),
                         uint32_t(any.layers));
  }

  void check(const Problem &problem, const rt::KeptSequence &got,
             const reference::Kept &want) {
    const reference::Layer &layer = problem.layer;
    double slack = tolerance(file, problem.shape.dtype);
    size_t row = size_t(layer.headDim) * rt::dtypeBytes(problem.shape.dtype);
    size_t at = 0;
    ASSERT_EQ(int64_t(got.past), want.past);
    ASSERT_EQ(int64_t(got.scores.size()), want.past * layer.kvHeads);
    for (int64_t g = 0; g < layer.kvHeads; ++g) {
      SCOPED_TRACE(testing::Message() << "head " << g);
      std::vector<int64_t> kept(got.indices.begin() + at,
                                got.indices.begin() + at + got.counts[g]);
      ASSERT_EQ(kept.size(), want.tokens[g].size());
      ASSERT_TRUE(std::is_sorted(kept.begin(), kept.end()));
      if (want.scores.empty())
        EXPECT_EQ(kept, want.tokens[g]);
      else
        checkSelection(kept, want.tokens[g], want.scores[g], want.past, slack,
                       swap);
      int64_t swapped = 0;
      for (int64_t t = 0; t < want.past; ++t) {
        float score = got.scores[g * want.past + t];
        swapped += std::abs(score - want.scores[g][t]) > 0.5;
        checkScore(score, want.scores[g][t], slack, floorOf(want.scores[g]),
                   swap);
      }
      EXPECT_LE(swapped, swap ? 2 + want.past / 100 : want.past);
      for (size_t i = 0; i < kept.size() && !want.merge && !merges; ++i) {
        size_t from = (g * layer.tokens + kept[i]) * row;
        EXPECT_EQ(std::memcmp(&got.k[(at + i) * row], &problem.k[from], row),
                  0);
        EXPECT_EQ(std::memcmp(&got.v[(at + i) * row], &problem.v[from], row),
                  0);
      }
      at += kept.size();
    }
    EXPECT_EQ(at, got.indices.size());
    if (merges)
      checkMerge(problem, got, want);
  }

  /// The table names tokens that the reference would merge, into rows as
  /// similar as the best; rows are the means of the table's members.
  void checkMerge(const Problem &problem, const rt::KeptSequence &got,
                  const reference::Kept &want) {
    const reference::Layer &layer = problem.layer;
    int64_t d = layer.headDim, T = layer.tokens;
    std::vector<double> k = widen(got.k, problem.shape.dtype),
                        v = widen(got.v, problem.shape.dtype);
    size_t at = 0, row0 = 0;
    for (int64_t g = 0; g < layer.kvHeads; ++g) {
      SCOPED_TRACE(testing::Message() << "head " << g);
      std::vector<int64_t> kept(got.indices.begin() + row0,
                                got.indices.begin() + row0 + got.counts[g]);
      bool same = kept == want.tokens[g]; // no near tie in the selection
      std::vector<std::vector<int64_t>> members(kept.size());
      std::vector<int64_t> represented;
      int64_t token = -1;
      for (int32_t i = 0; i < got.members.counts[g]; ++i, ++at) {
        int64_t row = got.members.rows[at];
        ASSERT_LT(row, int64_t(kept.size()));
        // With shared positions the table does not name its tokens: they are
        // those that come next.
        bool shared = want.merge && want.merge->sharePositions;
        token = shared ? nextMember(want, g, token, kept)
                       : got.members.positions[at];
        EXPECT_EQ(got.members.positions[at], shared ? kept[row] : token);
        members[row].push_back(token);
        represented.push_back(token);
        EXPECT_NEAR(got.members.norms[at], length(layer.kRaw, g * T + token, d),
                    1e-5 * (1 + length(layer.kRaw, g * T + token, d)));
        if (kept[row] != token && same)
          checkDestination(problem, want, g, token, kept[row]);
      }
      EXPECT_TRUE(std::is_sorted(represented.begin(), represented.end()));
      if (same)
        checkDropped(problem, want, g, represented, kept);
      for (size_t row = 0; row < kept.size(); ++row)
        checkMean(problem, want, g, kept[row], members[row],
                  &k[(row0 + row) * d], &v[(row0 + row) * d]);
      row0 += kept.size();
    }
    EXPECT_EQ(at, got.members.rows.size());
  }

  /// The past, also where nothing was ranked.
  static int64_t pastOf(const reference::Kept &want) {
    return want.merge->weight.shape[1];
  }

  static int64_t nextMember(const reference::Kept &want, int64_t g,
                            int64_t token, const std::vector<int64_t> &kept) {
    for (++token;; ++token)
      if (std::binary_search(kept.begin(), kept.end(), token) ||
          want.merge->destination.data[g * pastOf(want) + token] >= 0)
        return token;
  }

  static double length(const std::vector<double> &rows, int64_t row,
                       int64_t d) {
    double sum = 0;
    for (int64_t e = 0; e < d; ++e)
      sum += rows[row * d + e] * rows[row * d + e];
    return std::sqrt(sum);
  }

  /// Similarities are products of two quotients of fp32 sums.
  static constexpr double similaritySlack = 2e-5;

  void checkDestination(const Problem &problem, const reference::Kept &want,
                        int64_t g, int64_t token, int64_t to) {
    ASSERT_TRUE(want.merge && token < pastOf(want)) << token;
    const auto &merge = *want.merge;
    EXPECT_TRUE(merge.sources.data[g * pastOf(want) + token] != 0 ||
                scoreIsNear(want, g, token))
        << "token " << token << " is no source";
    double r = reference::similarity(problem.layer, merge.sides, g, token, to);
    EXPECT_GT(r, merge.least - similaritySlack);
    double best = double(to);
    if (double d = merge.destination.data[g * pastOf(want) + token]; d >= 0)
      best = d;
    EXPECT_GE(r, reference::similarity(problem.layer, merge.sides, g, token,
                                       int64_t(best)) -
                     similaritySlack)
        << "token " << token << " to " << to << ", not " << best;
  }

  /// Tokens without a row have nothing similar enough.
  void checkDropped(const Problem &problem, const reference::Kept &want,
                    int64_t g, const std::vector<int64_t> &represented,
                    const std::vector<int64_t> &kept) {
    for (int64_t t = 0; t < problem.layer.tokens; ++t) {
      if (std::binary_search(represented.begin(), represented.end(), t))
        continue;
      ASSERT_TRUE(want.merge && t < pastOf(want)) << t;
      double to = want.merge->destination.data[g * pastOf(want) + t];
      if (to < 0)
        continue;
      double r = reference::similarity(problem.layer, want.merge->sides, g, t,
                                       int64_t(to));
      EXPECT_TRUE(r < want.merge->least + similaritySlack ||
                  scoreIsNear(want, g, t))
          << "token " << t << " should be merged into " << to;
    }
  }

  /// A source is one by its score: near the lowest source's it may be none.
  bool scoreIsNear(const reference::Kept &want, int64_t g, int64_t token) {
    if (want.scores.empty())
      return false;
    double lowest = INFINITY;
    for (int64_t t = 0; t < pastOf(want); ++t)
      if (want.merge->sources.data[g * pastOf(want) + t] != 0)
        lowest = std::min(lowest, want.scores[g][t]);
    return std::abs(want.scores[g][token] - lowest) <=
           3e-5 * std::max(std::abs(lowest), floorOf(want.scores[g]));
  }

  void checkMean(const Problem &problem, const reference::Kept &want, int64_t g,
                 int64_t own, const std::vector<int64_t> &members,
                 const double *k, const double *v) {
    const reference::Layer &layer = problem.layer;
    int64_t d = layer.headDim, T = layer.tokens;
    ASSERT_FALSE(members.empty()) << "row of token " << own;
    double sum = 0;
    auto weight = [&](int64_t t) {
      return members.size() == 1
                 ? 1
                 : want.merge->weight.data[g * pastOf(want) + t];
    };
    for (int64_t t : members)
      sum += weight(t);
    double unit = problem.shape.dtype == KVC_F32   ? 1e-4
                  : problem.shape.dtype == KVC_F16 ? 1e-3
                                                   : 8e-3;
    for (int64_t e = 0; e < d; ++e) {
      double key = 0, value = 0;
      for (int64_t t : members) {
        double w = sum == 0 ? 1.0 / double(members.size()) : weight(t) / sum;
        double norm = length(layer.kRaw, g * T + t, d);
        key += norm == 0 ? 0 : w * layer.kRaw[(g * T + t) * d + e] / norm;
        value += w * layer.v[(g * T + t) * d + e];
      }
      EXPECT_NEAR(k[e], key, unit);
      EXPECT_NEAR(v[e], value, unit * (1 + std::abs(value)));
      if (members.size() == 1)
        EXPECT_EQ(v[e], layer.v[(g * T + own) * d + e]);
    }
  }

  /// Formulas that subtract lose digits: errors are measured against a part of
  /// the row's largest score where a score itself is smaller.
  static double floorOf(const std::vector<double> &scores) {
    double most = 0;
    for (double score : scores)
      if (std::isfinite(score))
        most = std::max(most, std::abs(score));
    return std::max(1e-2 * most, 1e-30);
  }

  static void checkScore(float got, double want, double slack, double floor,
                         int swap) {
    if (std::isnan(want) || std::isinf(want))
      EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : double(got) == want)
          << got << " for " << want;
    else
      EXPECT_NEAR(got, want,
                  10 * slack * std::max(std::abs(want), floor) + swap);
  }

  /// Tokens on which the two disagree have scores that fp32 cannot tell apart.
  static void checkSelection(const std::vector<int64_t> &got,
                             const std::vector<int64_t> &want,
                             const std::vector<double> &scores, int64_t past,
                             double slack, int swap) {
    std::vector<int64_t> differ;
    std::set_symmetric_difference(got.begin(), got.end(), want.begin(),
                                  want.end(), std::back_inserter(differ));
    double lowest = INFINITY;
    for (int64_t t : want)
      if (t < past)
        lowest = std::min(lowest, scores[t]);
    for (int64_t t : differ) {
      ASSERT_LT(t, past) << "a window token was dropped";
      EXPECT_NEAR(scores[t], lowest,
                  slack * std::max(std::abs(lowest), floorOf(scores)) + swap)
          << "token " << t;
    }
  }

  static void expectSameRows(const rt::KeptLayer &a, const rt::KeptLayer &b) {
    for (size_t s = 0; s < a.sequences.size(); ++s) {
      EXPECT_EQ(a.sequences[s].indices, b.sequences[s].indices);
      EXPECT_EQ(a.sequences[s].counts, b.sequences[s].counts);
    }
  }

  static void expectSame(const rt::KeptLayer &a, const rt::KeptLayer &b) {
    for (size_t s = 0; s < a.sequences.size(); ++s) {
      EXPECT_EQ(a.sequences[s].indices, b.sequences[s].indices);
      EXPECT_EQ(a.sequences[s].counts, b.sequences[s].counts);
      EXPECT_TRUE(a.sequences[s].k == b.sequences[s].k);
      EXPECT_TRUE(a.sequences[s].v == b.sequences[s].v);
      EXPECT_EQ(a.sequences[s].members.rows, b.sequences[s].members.rows);
      EXPECT_EQ(a.sequences[s].members.positions,
                b.sequences[s].members.positions);
      EXPECT_EQ(a.sequences[s].members.norms, b.sequences[s].members.norms);
      ASSERT_EQ(a.sequences[s].scores.size(), b.sequences[s].scores.size());
      if (!a.sequences[s].scores.empty())
        EXPECT_EQ(std::memcmp(a.sequences[s].scores.data(),
                              b.sequences[s].scores.data(),
                              a.sequences[s].scores.size() * 4),
                  0);
    }
  }
};

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 4) {
    std::cerr << "usage: matrix_test KVC_OPT WORK_DIR POLICY.mlir...\n";
    return 2;
  }
  compiler = argv[1];
  workDir = argv[2];
  std::filesystem::create_directories(workDir);
  for (int i = 3; i < argc; ++i) {
    std::string file = argv[i];
    testing::RegisterTest(
        "Policy", std::filesystem::path(file).stem().string().c_str(), nullptr,
        nullptr, file.c_str(), 0,
        [file]() -> testing::Test * { return new PolicyTest(file); });
  }
  return RUN_ALL_TESTS();
}
