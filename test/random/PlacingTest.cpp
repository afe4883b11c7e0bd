//===- PlacingTest.cpp - what is wrong of rows in a view is seen ----------===//
//
// A policy whose rows merge and carry a number, run on a merged cache twice: packed, and
// into views. Then what was packed is damaged.
//
//===----------------------------------------------------------------------===//

#include "test/random/Placing.h"

#include "kvc/host.h"
#include "test/matrix/Eviction.h"
#include "test/matrix/ExpectFaults.h"
#include "test/matrix/HeldRows.h"
#include "test/random/Compile.h"
#include "test/random/MergingPolicy.h"
#include "tools/kvc-opt/Register.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <filesystem>

using namespace kvc;
using namespace kvc::random;

namespace {

class PlacingTest : public testing::Test {
protected:
  Case c = Case::parse("head_dim=16,cache=merged,into=paged,place=0,"
                       "seq=60:12,seq=40:9");
  std::vector<test::Problem> problems;
  rt::KeptLayer packed;
  test::Module placed{nullptr, kvc_module_close};

  void SetUp() override {
    kvc_enable_host();
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.disableMultithreading();
    context.loadAllAvailableDialects();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    policy = *module->getOps<PolicyOp>().begin();
    for (size_t s = 0; s < c.sequences.size(); ++s) {
      auto [tokens, budget] = c.sequences[s];
      test::Problem &problem =
          problems.emplace_back(c.shape, tokens, budget, test::Keys::Random, s,
                                test::queriesFor(policy, tokens));
      problem.hold(test::drawRows(problem.layer, s + 5));
      problem.merge(s + 3);
    }
    auto evictor = test::openEvictor(compile(KVC_MERGED, KVC_DENSE), {},
                                     c.shape, c.sequences, c.cache);
    packed = test::evict(*evictor, problems, nullptr, false);
    compileFor(0);
  }
  void TearDown() override {
    placed.reset();
    for (const std::string &library : libraries)
      std::filesystem::remove(library);
  }

  void compileFor(uint32_t place) {
    c.place = place;
    placed = test::openLibrary(compile(planned(c), c.into), KVC_HOST, 3);
  }

  std::string faults(const rt::KeptLayer &kept) {
    return test::textOf(
        judgePlaced(placed.get(), c, policy, problems, nullptr, {}, kept));
  }
  void sees(const std::string &fault,
            llvm::function_ref<void(rt::KeptSequence &)> damage) {
    rt::KeptLayer kept = packed;
    damage(kept.sequences[1]);
    test::expectFault(faults(kept), fault);
  }

private:
  const std::string text =
      mergingPolicy("raw_key", "carry(\"norm\" = %s : tensor<?x?xf32>)");
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  PolicyOp policy;
  std::vector<std::string> libraries;

  std::string compile(kvc_cache_kind cache, kvc_cache_kind into) {
    CompileOptions options;
    options.shape = c.shape;
    options.cache = cache;
    options.into = into;
    options.library = testing::TempDir() + "placing-" +
                      std::to_string(getpid()) + "-" +
                      std::to_string(libraries.size()) + ".so";
    libraries.push_back(options.library);
    Compiled compiled = random::compile(context, text, options);
    EXPECT_EQ(compiled.refused, "");
    return options.library;
  }
};

TEST_F(PlacingTest, FindsNothingWrongOfRowsInAnyView) {
  for (kvc_cache_kind into : {KVC_RAGGED, KVC_PAGED})
    for (uint32_t turn : {0, 1}) { // of a ragged cache, and of one in pages
      c.into = into;
      compileFor(4 * turn);
      for (c.place = 4 * turn; c.place < 48;
           c.place += c.place % 4 == 3 ? 5 : 1)
        EXPECT_EQ(faults(packed), "") << placeOf(c).text();
    }
}

TEST_F(PlacingTest, SeesOtherRows) {
  sees("other rows", [](rt::KeptSequence &kept) { ++kept.indices[2]; });
  sees("other positions", [](rt::KeptSequence &kept) { ++kept.positions[2]; });
  sees("other bytes of K",
       [](rt::KeptSequence &kept) { kept.k[70] ^= std::byte{1}; });
  sees("other bytes of V",
       [](rt::KeptSequence &kept) { kept.v[70] ^= std::byte{1}; });
  sees("other members",
       [](rt::KeptSequence &kept) { kept.members.norms.back() *= 1.001f; });
  sees("other numbers that rows carry",
       [](rt::KeptSequence &kept) { kept.states[0].back() *= 1.001f; });
}

TEST_F(PlacingTest, SeesAnotherStatus) {
  rt::KeptLayer kept = packed;
  kept.nanScores = true;
  EXPECT_EQ(faults(kept), "status 0, not 1\n");
}

} // namespace
