//===- NoiseTest.cpp - ties stay ties, sums are disturbed as sums ---------===//

#include "test/random/Noise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kvc;
using namespace kvc::random;
using reference::Tensor;

namespace {

const char *const ops = R"(
  kvc.policy @p {
    %s = kvc.norm l2 key : tensor<?x?xf32>
    %e = math.exp %s : tensor<?x?xf32>
    %m = kvc.reduce mean heads %s : tensor<?x?xf32> -> tensor<?x?xf32>
    %x = kvc.reduce max heads %s : tensor<?x?xf32> -> tensor<?x?xf32>
    %n = kvc.allocate uniform : tensor<?xi32>
    %k = kvc.topk %s, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
    %w = arith.constant 3 : index
    %p = kvc.pool mean %s width(%w) : tensor<?x?xf32>
    %r = math.powf %s, %e : tensor<?x?xf32>
    %h = math.tanh %s : tensor<?x?xf32>
    kvc.keep %k : tensor<?x?xi1>
  })";

class NoiseTest : public testing::Test {
protected:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  reference::Layer layer = {};
  PolicyOp policy;

  void SetUp() override {
    context.loadDialect<KVCDialect, mlir::arith::ArithDialect,
                        mlir::math::MathDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(ops, &context);
    policy = *module->getOps<PolicyOp>().begin();
    layer.kvHeads = 2;
    layer.headDim = 4;
  }

  /// The result of op number `op`, disturbed.
  std::vector<double> disturb(size_t op, std::vector<double> result,
                              std::vector<double> operand, uint64_t seed) {
    Noise noise(policy, layer, seed, fewUnits);
    int64_t heads = int64_t(operand.size() / 3);
    Tensor from{{Axis::KVHeads, Axis::Past}, {heads, 3}, operand};
    Tensor to{{Axis::KVHeads, Axis::Past}, {heads, 3}, std::move(result)};
    noise(&*std::next(policy.getBody().front().begin(), long(op)), {&from}, to);
    return to.data;
  }
};

TEST_F(NoiseTest, EqualNumbersStayEqual) {
  double x = std::exp(0.3), y = std::exp(0.7);
  bool moved = false;
  for (uint64_t seed = 1; seed < 9; ++seed) {
    auto out = disturb(1, {x, y, x}, {0.3, 0.7, 0.3}, seed);
    EXPECT_EQ(out[0], out[2]);
    EXPECT_NEAR(out[0], x, 2 * fewUnits * x);
    moved |= out[0] != x && (out[0] > x) != (out[1] > y);
  }
  EXPECT_TRUE(moved);
}

TEST_F(NoiseTest, WhatIsExactIsNotMoved) {
  auto out = disturb(1, {1, 0.25, 3}, {0, -2, 5}, 1);
  EXPECT_EQ(out, (std::vector<double>{1, 0.25, 3}));
  // The largest of some numbers is one of them.
  std::vector<double> most{0.1, 0.2, 0.3};
  EXPECT_EQ(disturb(3, most, {0.1, 0.2, 0.3, 0, 0, 0}, 1), most);
}

TEST_F(NoiseTest, PowersAreExactOfPowersOfTwoAlone) {
  bool moved = false;
  for (uint64_t seed = 1; seed < 9; ++seed) {
    auto out = disturb(8, {3, 2, 1}, {9, 4, 1}, seed);
    moved |= out[0] != 3;
    EXPECT_EQ(out[1], 2);
    EXPECT_EQ(out[2], 1);
  }
  EXPECT_TRUE(moved);
}

TEST_F(NoiseTest, SumsAreMovedByWhatTheyAddUp) {
  // What cancels in a mean leaves the error of its terms.
  double worst = 0;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    double x = 1e3 / 3, left = 1e-6 / 7;
    auto out = disturb(2, {left, left, left}, {x, x, x, -x, -x, -x}, seed);
    worst = std::max(worst, std::abs(out[0] - left));
  }
  EXPECT_GT(worst, 1e-6);
  EXPECT_LT(worst, 1e-3);
}

TEST_F(NoiseTest, WhatIsEqualInFp32IsEqualInSomeRun) {
  // 1 - 3e-9 and 1 - 5e-9 are both 1, which times 50 is another integer.
  double x = 1 - 3e-9, y = 1 - 5e-9;
  bool one = false, others = false;
  for (uint64_t seed = 1; seed < 9; ++seed) {
    auto out = disturb(1, {x, y, x}, {0.3, 0.7, 0.3}, seed);
    one |= out[0] == 1 && out[1] == 1;
    others |= out[0] < 1 && out[1] > 1;
    for (double number : out)
      EXPECT_EQ(number, double(float(number)));
  }
  EXPECT_TRUE(one);
  EXPECT_TRUE(others);
}

TEST_F(NoiseTest, NearItsLimitATangentIsOneNumberInSomeRun) {
  bool tie = false, others = false, less = false;
  for (uint64_t seed = 1; seed < 40; ++seed) {
    auto out = disturb(9, {std::tanh(8.2), std::tanh(12.), std::tanh(2.)},
                       {8.2, 12, 2}, seed);
    tie |= out[0] == 1 && out[1] == 1;
    less |= out[0] < 1 && out[0] == out[1];
    others |= out[0] < out[1];
    EXPECT_LT(out[2], out[0]);
  }
  EXPECT_TRUE(tie);
  EXPECT_TRUE(less);
  EXPECT_TRUE(others);
}

TEST_F(NoiseTest, EqualSumsOfOtherTermsAreMovedApart) {
  double a = 1e3 / 3, b = 1e4 / 7;
  bool apart = false;
  for (uint64_t seed = 1; seed < 9; ++seed) {
    auto out = disturb(2, {0, 0, 0}, {a, b, a, -a, -b, -a}, seed);
    EXPECT_EQ(out[0], out[2]);
    apart |= std::abs(out[0] - out[1]) > 1e-6;
  }
  EXPECT_TRUE(apart);
}

TEST_F(NoiseTest, SumsInAnotherOrderAreMovedApart) {
  double a = 1e3 / 3, b = 1e4 / 7, c = 1e2 / 9, sum = a + b + c;
  auto pooled = [&](std::vector<double> terms, uint64_t seed) {
    Noise noise(policy, layer, seed, fewUnits);
    Tensor width{{}, {}, {3}};
    Tensor from{{Axis::KVHeads, Axis::Past}, {3, 3}, std::move(terms)};
    Tensor to{{Axis::KVHeads, Axis::Past}, {3, 3}, std::vector(9, sum / 3)};
    noise(&*std::next(policy.getBody().front().begin(), 7), {&from, &width},
          to);
    return std::vector{to.data[1], to.data[4], to.data[7]};
  };
  bool apart = false;
  for (uint64_t seed = 1; seed < 9; ++seed) {
    auto out = pooled({a, b, c, c, b, a, a, b, c}, seed);
    EXPECT_EQ(out[0], out[2]);
    apart |= out[0] != out[1];
    // Zeros are no terms.
    out = pooled({a, 0, b, a, b, 0, 0, a, b}, seed);
    EXPECT_EQ(out[0], out[1]);
    EXPECT_EQ(out[0], out[2]);
  }
  EXPECT_TRUE(apart);
}

TEST_F(NoiseTest, PoolsOfFewerEqualNumbersAreMovedApart) {
  // A third of x + x + x is not the half of x + x in fp32.
  double x = 1e3 / 7;
  bool apart = false;
  for (uint64_t seed = 1; seed < 9; ++seed) {
    Noise noise(policy, layer, seed, fewUnits);
    Tensor width{{}, {}, {3}};
    Tensor from{{Axis::KVHeads, Axis::Past}, {1, 5}, {x, x, x, x, x}};
    Tensor to = from;
    noise(&*std::next(policy.getBody().front().begin(), 7), {&from, &width},
          to);
    EXPECT_EQ(to.data[0], to.data[4]);
    EXPECT_EQ(to.data[1], to.data[2]);
    EXPECT_EQ(to.data[1], to.data[3]);
    apart |= to.data[0] != to.data[1];
  }
  EXPECT_TRUE(apart);
}

TEST_F(NoiseTest, ExponentialsMayHaveNoSubnormalNumbers) {
  bool zero = false, kept = false;
  for (uint64_t seed = 1; seed < 9; ++seed) {
    auto out = disturb(1, {5e-39, 1, 1}, {-87.9, 0, 0}, seed);
    zero |= out[0] == 0;
    kept |= out[0] > 4e-39;
  }
  EXPECT_TRUE(zero);
  EXPECT_TRUE(kept);
}

TEST_F(NoiseTest, NumbersThatFp32HasNot) {
  auto out = disturb(1, {1e300, 1e-300, -1e39}, {0.1, 0.1, 0.1}, 1);
  EXPECT_EQ(out, (std::vector<double>{INFINITY, 0, -INFINITY}));
}

} // namespace
