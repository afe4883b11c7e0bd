//===- GeneratorTest.cpp - policies, cases and what is left of them -------===//

#include "test/random/Coverage.h"
#include "test/random/Generator.h"
#include "test/random/Shrink.h"

#include "passes/PolicyPipeline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace kvc;
using namespace kvc::random;

namespace {

TEST(Generator, IsASeedsFunction) {
  EXPECT_EQ(Generator(5).make(), Generator(5).make());
  EXPECT_NE(Generator(5).make(), Generator(6).make());
  EXPECT_EQ(makeCase(5).text(), makeCase(5).text());
}

/// Few are refused, and what the dialect has is in them.
TEST(Generator, CoversTheDialect) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<KVCDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect>();
  context.getDiagEngine().registerHandler([](mlir::Diagnostic &) {});
  Coverage coverage;
  int refused = 0;
  constexpr int seeds = 1000;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        Generator(seed).make(), &context);
    if (!module) {
      ++refused;
      continue;
    }
    mlir::PassManager manager(&context);
    // Bounds of norms come from the pruning of norms only.
    buildPolicyPipeline(manager, {}, /*pruneNorms=*/seed % 4 == 0);
    buildFusePipeline(manager);
    if (failed(manager.run(*module)))
      ++refused;
    else
      coverage.add(cellsOf(*module->getOps<PolicyOp>().begin()));
  }
  EXPECT_LT(refused, seeds / 20);
  for (const std::string &name : coverage.holes())
    ADD_FAILURE() << "never: " << name;
}

TEST(Case, IsReadBack) {
  for (uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_EQ(Case::parse(makeCase(seed).text()).text(), makeCase(seed).text());
  EXPECT_EQ(Case::parse("seq=7:3").sequences.size(), 1u);
  EXPECT_EQ(Case::parse("cache=paged").cache, KVC_PAGED);
  EXPECT_EQ(Case::parse("into=ragged,place=7").into, KVC_RAGGED);
  EXPECT_ANY_THROW(Case::parse("cache=full"));
  EXPECT_ANY_THROW(Case::parse("depth=3"));
  EXPECT_ANY_THROW(Case::parse("kv=many"));
}

/// One in five is a cache of rows, unless the policy asks for what it does not have.
TEST(Case, IsACacheOfRowsWhereThePolicyCanRun) {
  int64_t caches = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    caches += makeCase(seed).cache != KVC_DENSE;
    EXPECT_EQ(fitted(makeCase(seed), "kvc.nearest").cache, KVC_DENSE);
    EXPECT_NE(fitted(makeCase(seed), "raw_key").cache, KVC_PAGED);
    EXPECT_EQ(fitted(makeCase(seed), "").text(), makeCase(seed).text());
  }
  EXPECT_GT(caches, 50);
  EXPECT_LT(caches, 200);
}

/// What stays is what the fault needs.
TEST(Shrink, LeavesWhatTheFaultNeeds) {
  uint64_t seed = 0;
  auto fails = [](const Failing &failing) {
    return failing.policy.find("kvc.pool") != std::string::npos &&
           failing.policy.find("kvc.attention") != std::string::npos &&
           failing.c.sequences.size() >= 2 && failing.c.shape.group >= 3;
  };
  auto make = [&] { return Failing{Generator(seed).make(), makeCase(seed)}; };
  auto lines = [](const std::string &text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  while (!fails(make()) || lines(make().policy) < 30)
    ++seed;
  Failing small = shrink(make(), fails, 1000);
  EXPECT_TRUE(fails(small));
  EXPECT_LT(lines(small.policy), 18) << small.policy;
  EXPECT_EQ(small.c.sequences.size(), 2u);
  EXPECT_EQ(small.c.shape.group, 3);
  EXPECT_EQ(small.c.shape.kvHeads, 1);
  EXPECT_EQ(small.c.sequences[0].first, 2);
}

} // namespace
