//===- JudgeTest.cpp - does the judge see what is wrong? ------------------===//
//
// Results are made of the reference's own answer, so that nothing is wrong with
// them, and are then damaged.
//
//===----------------------------------------------------------------------===//

#include "test/matrix/ExpectFaults.h"
#include "test/matrix/HeldRows.h"
#include "test/random/MergingPolicy.h"
#include "test/random/Noise.h"
#include "test/random/Spread.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "executor/model/RaggedCache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kvc;
using namespace kvc::random;

namespace {

const char *const byNorm = R"(
  kvc.policy @p {
    %w = arith.constant 3 : index
    %s = kvc.norm l2 key : tensor<?x?xf32>
    %n = kvc.allocate uniform : tensor<?xi32>
    %k = kvc.topk %s, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
    kvc.keep %k protect_last(%w) : tensor<?x?xi1>
  })";

const std::string mergingText = mergingPolicy("key", "protect_last(%w)");
const char *const merging = mergingText.c_str();

class JudgeTest : public testing::Test {
protected:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  PolicyOp policy;

  void parse(const char *text) {
    context.loadDialect<KVCDialect, mlir::arith::ArithDialect,
                        mlir::math::MathDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    policy = *module->getOps<PolicyOp>().begin();
  }

  static test::Problem problem(test::Keys keys = test::Keys::Random) {
    return {{2, 2, 16, KVC_F32}, 40, 12, keys, 8, 40};
  }

  reference::Kept run(const test::Problem &problem, uint64_t seed,
                      double amplitude) {
    Noise noise(policy, problem.layer, seed, amplitude);
    return *reference::interpret(policy, problem.layer, noise);
  }

  /// What kernels without a fault would hand back.
  static rt::KeptSequence good(const test::Problem &problem,
                               const reference::Kept &want) {
    const reference::Layer &layer = problem.layer;
    rt::KeptSequence got;
    got.past = uint32_t(want.past);
    size_t row = size_t(layer.headDim) * 4;
    for (int64_t g = 0; g < layer.kvHeads; ++g) {
      got.counts.push_back(int32_t(want.tokens[g].size()));
      got.scores.insert(got.scores.end(), want.scores[g].begin(),
                        want.scores[g].end());
      for (int64_t t : want.tokens[g]) {
        got.indices.push_back(int32_t(t));
        size_t from = size_t(g * layer.tokens + t) * row;
        got.k.insert(got.k.end(), problem.k.begin() + from,
                     problem.k.begin() + from + row);
        got.v.insert(got.v.end(), problem.v.begin() + from,
                     problem.v.begin() + from + row);
      }
      if (want.merge)
        merge(problem, want, g, got);
    }
    return got;
  }

  /// The table of one head and the means in the place of its rows.
  static void merge(const test::Problem &problem, const reference::Kept &want,
                    int64_t g, rt::KeptSequence &got) {
    const reference::Layer &layer = problem.layer;
    const std::vector<int64_t> &kept = want.tokens[g];
    int64_t d = layer.headDim, past = want.past;
    std::vector<double> k(kept.size() * d), v(k.size()), sums(kept.size());
    std::vector<size_t> rowOf;
    std::vector<int64_t> members;
    for (int64_t t = 0; t < layer.tokens; ++t) {
      int64_t to = t;
      if (t < past && !std::binary_search(kept.begin(), kept.end(), t))
        to = int64_t(want.merge->destination.data[g * past + t]);
      auto at = std::lower_bound(kept.begin(), kept.end(), to);
      if (to < 0 || at == kept.end() || *at != to)
        continue;
      members.push_back(t);
      rowOf.push_back(size_t(at - kept.begin()));
    }
    for (size_t i = 0; i < members.size(); ++i) {
      int64_t t = members[i];
      bool alone = std::count(rowOf.begin(), rowOf.end(), rowOf[i]) == 1;
      double w = alone ? 1 : want.merge->weight.data[g * past + t], sum = 0;
      for (int64_t e = 0; e < d; ++e)
        sum += std::pow(layer.kRaw[(g * layer.tokens + t) * d + e], 2);
      got.members.rows.push_back(int32_t(rowOf[i]));
      got.members.positions.push_back(
          int32_t(want.merge->sharePositions ? kept[rowOf[i]] : t));
      got.members.norms.push_back(float(std::sqrt(sum)));
      sums[rowOf[i]] += w;
      for (int64_t e = 0; e < d; ++e) {
        size_t from = size_t(g * layer.tokens + t) * d + e;
        k[rowOf[i] * d + e] +=
            sum == 0 ? 0 : w * layer.kRaw[from] / std::sqrt(sum);
        v[rowOf[i] * d + e] += w * layer.v[from];
      }
    }
    got.members.counts.push_back(int32_t(members.size()));
    for (size_t i = 0; i < k.size(); ++i) {
      float mean[] = {float(k[i] / sums[i / d]), float(v[i] / sums[i / d])};
      std::memcpy(&got.k[got.k.size() - (k.size() - i) * 4], &mean[0], 4);
      std::memcpy(&got.v[got.v.size() - (k.size() - i) * 4], &mean[1], 4);
    }
  }

  /// The faults of a result that `damage` has been done to.
  std::string faults(const char *text,
                     llvm::function_ref<void(rt::KeptSequence &)> damage,
                     test::Keys keys = test::Keys::Random) {
    if (!module)
      parse(text);
    test::Problem made = problem(keys);
    reference::Kept want = run(made, 0, 0);
    rt::KeptSequence got = good(made, want);
    damage(got);
    Spread margin(want, [&](uint64_t seed, double amplitude) {
      return run(made, seed, amplitude);
    });
    return test::textOf(test::judge(made, got, want, margin));
  }
};

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Puts another token of the first head into its list and copies its rows.
void replaceToken(rt::KeptSequence &got, const test::Problem &problem,
                  size_t at, int64_t token) {
  size_t row = size_t(problem.layer.headDim) * 4;
  got.indices[at] = int32_t(token);
  std::memcpy(&got.k[at * row], &problem.k[size_t(token) * row], row);
  std::memcpy(&got.v[at * row], &problem.v[size_t(token) * row], row);
}

TEST_F(JudgeTest, FindsNothingInTheReferencesAnswer) {
  EXPECT_EQ(faults(byNorm, [](rt::KeptSequence &) {}), "");
}

TEST_F(JudgeTest, SeesAnotherToken) {
  test::Problem made = problem();
  auto text = faults(byNorm, [&](rt::KeptSequence &got) {
    // The first one that is missing, in the place of its neighbour.
    size_t i = 0;
    while (got.indices[i + 1] == got.indices[i] + 1)
      ++i;
    replaceToken(got, made, i, got.indices[i] + 1);
  });
  EXPECT_TRUE(contains(text, "dropped")) << text;
  EXPECT_TRUE(contains(text, "kept")) << text;
}

TEST_F(JudgeTest, SeesDroppedTokensAndWrongCounts) {
  auto text = faults(byNorm, [&](rt::KeptSequence &got) {
    --got.counts[0];
    got.indices.erase(got.indices.begin());
    got.k.erase(got.k.begin(), got.k.begin() + 64);
    got.v.erase(got.v.begin(), got.v.begin() + 64);
  });
  EXPECT_TRUE(contains(text, "11 tokens, not 12")) << text;
  text = faults(byNorm, [&](rt::KeptSequence &got) { --got.counts[0]; });
  EXPECT_TRUE(contains(text, "do not add up")) << text;
}

TEST_F(JudgeTest, SeesRowsThatAreShiftedOrDisordered) {
  auto text = faults(byNorm, [&](rt::KeptSequence &got) {
    std::rotate(got.k.begin(), got.k.begin() + 64, got.k.end());
  });
  EXPECT_TRUE(contains(text, "row 0 is not the key of token")) << text;
  text = faults(byNorm, [&](rt::KeptSequence &got) {
    got.v[64 * 4 + 3] ^= std::byte(1);
  });
  EXPECT_TRUE(contains(text, "row 4 is not the value of token")) << text;
  text = faults(byNorm, [&](rt::KeptSequence &got) {
    std::swap(got.indices[0], got.indices[1]);
    std::swap_ranges(got.k.begin(), got.k.begin() + 64, got.k.begin() + 64);
    std::swap_ranges(got.v.begin(), got.v.begin() + 64, got.v.begin() + 64);
  });
  EXPECT_TRUE(contains(text, "do not ascend")) << text;
}

TEST_F(JudgeTest, SeesWrongScores) {
  auto text =
      faults(byNorm, [](rt::KeptSequence &got) { got.scores[5] *= 1.0001f; });
  EXPECT_TRUE(contains(text, "the score of token 5")) << text;
  text = faults(byNorm, [](rt::KeptSequence &got) { got.scores[5] = NAN; });
  EXPECT_TRUE(contains(text, "the score of token 5 is nan")) << text;
  text = faults(byNorm, [](rt::KeptSequence &got) { got.past = 36; });
  EXPECT_TRUE(contains(text, "36 tokens are ranked, not 37")) << text;
  // Rounding is none.
  text = faults(byNorm, [](rt::KeptSequence &got) {
    for (float &score : got.scores)
      score = std::nextafter(std::nextafter(score, 0), 0);
  });
  EXPECT_EQ(text, "");
}

/// Of twins the first comes first: no rounding makes two equal numbers differ.
TEST_F(JudgeTest, SeesTiesThatAreBrokenWrongly) {
  test::Problem made = problem(test::Keys::Repeated);
  bool done = false;
  auto text = faults(
      byNorm,
      [&](rt::KeptSequence &got) {
        for (int i = got.counts[0] - 1; i >= 0 && !done; --i) {
          int64_t twin = got.indices[i] + 20;
          bool both = std::count(got.indices.begin(),
                                 got.indices.begin() + got.counts[0], twin);
          if (both || twin >= 37)
            continue;
          // The list stays in order.
          std::vector<int32_t> list(got.indices.begin(),
                                    got.indices.begin() + got.counts[0]);
          list[size_t(i)] = int32_t(twin);
          std::sort(list.begin(), list.end());
          for (size_t at = 0; at < list.size(); ++at)
            replaceToken(got, made, at, list[at]);
          done = true;
        }
      },
      test::Keys::Repeated);
  ASSERT_TRUE(done);
  EXPECT_TRUE(contains(text, "dropped")) << text;
}

TEST_F(JudgeTest, SeesWrongMerges) {
  EXPECT_EQ(faults(merging, [](rt::KeptSequence &) {}), "");
  auto firstMerged = [](const rt::KeptSequence &got) {
    size_t i = 0;
    while (got.indices[size_t(got.members.rows[i])] == got.members.positions[i])
      ++i;
    return i;
  };
  auto text = faults(merging, [&](rt::KeptSequence &got) {
    size_t i = firstMerged(got);
    got.members.rows[i] = (got.members.rows[i] + 1) % 9;
  });
  EXPECT_TRUE(contains(text, "is merged into")) << text;
  text = faults(merging, [&](rt::KeptSequence &got) {
    size_t i = firstMerged(got);
    got.members.rows.erase(got.members.rows.begin() + long(i));
    got.members.positions.erase(got.members.positions.begin() + long(i));
    got.members.norms.erase(got.members.norms.begin() + long(i));
    --got.members.counts[0];
  });
  EXPECT_TRUE(contains(text, "should be merged into")) << text;
  text = faults(merging, [&](rt::KeptSequence &got) {
    got.members.norms[firstMerged(got)] *= 1.001f;
  });
  EXPECT_TRUE(contains(text, "has norm")) << text;
  text = faults(merging, [&](rt::KeptSequence &got) {
    size_t row = size_t(got.members.rows[firstMerged(got)]);
    float x;
    std::memcpy(&x, &got.v[row * 64 + 8], 4);
    x += 0.01f;
    std::memcpy(&got.v[row * 64 + 8], &x, 4);
  });
  EXPECT_TRUE(contains(text, "row is")) << text;
  text = faults(merging, [&](rt::KeptSequence &got) {
    auto *key = reinterpret_cast<float *>(
        &got.k[size_t(got.members.rows[firstMerged(got)]) * 64]);
    *std::min_element(key, key + 16, [](float a, float b) {
      return std::abs(a) < std::abs(b);
    }) += 5e-5f;
  });
  EXPECT_TRUE(contains(text, "the key of token")) << text;
}

/// Shared positions do not name the members: their norms do, so that behind one that
/// is missing the others are still who they are.
TEST_F(JudgeTest, NamesMembersThatSharePositions) {
  std::string text = merging;
  text.replace(text.find("protect_last"), 0, "share_positions ");
  EXPECT_EQ(faults(text.c_str(), [](rt::KeptSequence &) {}), "");
  auto found = faults(text.c_str(), [&](rt::KeptSequence &got) {
    size_t i = 0;
    while (std::count(got.members.rows.begin(),
                      got.members.rows.begin() + long(i),
                      got.members.rows[i]) == 0)
      ++i;
    got.members.rows.erase(got.members.rows.begin() + long(i));
    got.members.positions.erase(got.members.positions.begin() + long(i));
    got.members.norms.erase(got.members.norms.begin() + long(i));
    --got.members.counts[0];
  });
  EXPECT_TRUE(contains(found, "should be merged into")) << found;
  EXPECT_FALSE(contains(found, "has norm")) << found;
  found = faults(text.c_str(),
                 [](rt::KeptSequence &got) { got.members.norms[3] *= 1.001f; });
  EXPECT_TRUE(contains(found, "has norm")) << found;
}

/// Kernels speak of rows; the judge is told which tokens these are.
TEST_F(JudgeTest, SeesWrongRows) {
  parse(byNorm);
  test::Problem made = problem();
  made.hold(test::drawRows(made.layer, 5));
  reference::Kept want = run(made, 0, 0);
  // What kernels without a fault would hand back.
  rt::KeptSequence all = good(made, want), rows = all;
  rows.scores.clear();
  rows.past = 0;
  size_t at = 0, first = 0;
  for (int64_t g = 0; g < made.layer.kvHeads; ++g) {
    auto own = made.positions.begin() + long(first);
    first += size_t(made.lengths[g]);
    for (int32_t i = 0; i < rows.counts[g]; ++i, ++at) {
      rows.positions.push_back(all.indices[at]);
      rows.indices[at] =
          int32_t(std::find(own, made.positions.begin() + long(first),
                            all.indices[at]) -
                  own);
    }
    uint32_t ranked = 0;
    for (int64_t t = 0; t < want.past; ++t)
      if (want.ranked[g][t]) {
        rows.scores.push_back(float(want.scores[g][t]));
        ++ranked;
      }
    rows.past = std::max(rows.past, ranked);
  }
  ASSERT_LT(made.lengths[0], 40);
  ASSERT_GT(made.lengths[0], 12) << "something is dropped";
  Spread margin(want, [&](uint64_t seed, double amplitude) {
    return run(made, seed, amplitude);
  });
  auto judged = [&](llvm::function_ref<void(rt::KeptSequence &)> damage) {
    rt::KeptSequence got = rows;
    damage(got);
    test::Faults found;
    rt::KeptSequence tokens = test::tokensOf(made, got, want, found);
    if (found.empty())
      found = test::judge(made, tokens, want, margin);
    return found.empty() ? std::string() : found.get().front();
  };
  EXPECT_EQ(judged([](rt::KeptSequence &) {}), "");
  EXPECT_TRUE(contains(
      judged([](rt::KeptSequence &got) { ++got.positions[2]; }), "row"));
  EXPECT_TRUE(contains(
      judged([](rt::KeptSequence &got) { got.indices[0] = 40; }), "row 40 of"));
  EXPECT_TRUE(contains(judged([](rt::KeptSequence &got) { --got.past; }),
                       "are ranked"));
  EXPECT_TRUE(
      contains(judged([](rt::KeptSequence &got) { got.scores.pop_back(); }),
               "are ranked"));
  EXPECT_TRUE(
      contains(judged([](rt::KeptSequence &got) { got.scores[1] *= 2; }),
               "the score of token"));
  // As a prompt's, the rows of other tokens are read.
  EXPECT_TRUE(contains(judged([&](rt::KeptSequence &got) {
                         for (size_t i = 0; i < got.indices.size(); ++i)
                           if (got.k[i * 64] != std::byte(0))
                             return void(got.k[i * 64] ^= std::byte(1));
                       }),
                       "is not the key"));
}

TEST(Ranking, IsThatOfTheKernelsOwnScores) {
  std::vector<float> scores{1, NAN, -0.0f, 0.0f, -INFINITY, 2, 1};
  EXPECT_TRUE(test::judgeRanking(scores, {5}).empty());
  EXPECT_TRUE(test::judgeRanking(scores, {0, 5}).empty());
  EXPECT_TRUE(test::judgeRanking(scores, {0, 2, 5, 6}).empty());
  EXPECT_TRUE(test::judgeRanking(scores, {0, 2, 3, 4, 5, 6}).empty());
  EXPECT_FALSE(test::judgeRanking(scores, {5, 6}).empty()) << "the later twin";
  EXPECT_FALSE(test::judgeRanking(scores, {0, 3, 5, 6}).empty()) << "-0 is +0";
  EXPECT_FALSE(test::judgeRanking(scores, {0, 1, 2, 3, 5, 6}).empty()) << "NaN";
}

/// As the dialect says it, beside whatever it is.
TEST(Reference, ZeroVectorHasCosineZero) {
  reference::Layer layer = {};
  layer.tokens = 3;
  layer.headDim = 2;
  layer.k = {0, 0, INFINITY, 1, 3, 4};
  EXPECT_EQ(reference::similarity(layer, {&layer.k}, 0, 0, 1), 0);
  EXPECT_EQ(reference::similarity(layer, {&layer.k}, 0, 1, 0), 0);
  EXPECT_EQ(reference::similarity(layer, {&layer.k}, 0, 0, 0), 0);
  EXPECT_TRUE(std::isnan(reference::similarity(layer, {&layer.k}, 0, 1, 2)));
  EXPECT_EQ(reference::similarity(layer, {&layer.k}, 0, 2, 2), 1);
}

/// A reference that is made up: token 3 is as good as token 2.
TEST(Spread, TakesWhatDisturbedRunsTake) {
  reference::Kept want;
  want.past = 5;
  want.tokens = {{0, 1, 2}};
  want.scores = {{5, 4, 1, 1, 0}};
  Spread margin(want, [&](uint64_t seed, double amplitude) {
    reference::Kept other = want;
    if (seed % 4 == 3)
      other.tokens = {{0, 1, 3}};
    for (double &score : other.scores[0])
      score *= 1 + amplitude * (seed % 2 ? 1 : -1);
    return other;
  });
  EXPECT_TRUE(margin.keepsEither(0, 2));
  EXPECT_TRUE(margin.keepsEither(0, 3));
  EXPECT_FALSE(margin.keepsEither(0, 1));
  EXPECT_FALSE(margin.keepsEither(0, 4));
  EXPECT_FALSE(margin.keepsSoMany(0, 2));
  EXPECT_TRUE(margin.scoreMayBe(0, 0, float(5 * (1 + fewUnits))));
  EXPECT_FALSE(margin.scoreMayBe(0, 0, float(5 * (1 + 50 * fewUnits))));
  EXPECT_FALSE(margin.scoreMayBe(0, 4, 1e-6f));
  EXPECT_FALSE(margin.scoreMayBe(0, 0, NAN));
}

/// inf - inf here, a number where a sum has been rounded.
TEST(Spread, TakesANumberWhereOnlyRoundingMakesNone) {
  reference::Kept want;
  want.past = 2;
  want.tokens = {{0, 1}};
  want.scores = {{NAN, NAN}};
  Spread margin(want, [&](uint64_t, double) {
    reference::Kept other = want;
    other.scores[0][0] = 3;
    return other;
  });
  EXPECT_TRUE(margin.scoreMayBe(0, 0, 2));
  EXPECT_TRUE(margin.scoreMayBe(0, 0, NAN));
  EXPECT_FALSE(margin.scoreMayBe(0, 0, -2));
  EXPECT_FALSE(margin.scoreMayBe(0, 1, 2));
}

} // namespace
