// What is refused in front of the passes and behind them, in one line.

#include "test/random/Compile.h"

#include "tools/kvc-opt/Register.h"

#include <gtest/gtest.h>

using namespace kvc;
using namespace kvc::random;

namespace {

class CompileTest : public testing::Test {
protected:
  void SetUp() override {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.disableMultithreading();
  }
  Compiled compile(const std::string &policy) {
    CompileOptions options;
    options.shape = {1, 16, 16, KVC_F32};
    return random::compile(context, policy, options);
  }
  mlir::MLIRContext context;
};

TEST_F(CompileTest, RefusesATextWithoutOnePolicy) {
  Compiled none = compile("");
  EXPECT_EQ(none.refused, "policy: must have one kvc.policy, got 0");
  EXPECT_TRUE(none.faults.empty());
}

/// Unoptimised, each number has a place on the stack: 16 query heads, row by row. It
/// ran over, into the next thread's.
TEST_F(CompileTest, RefusesAKernelThatNeedsMoreStackThanAThreadHas) {
  std::string body, last = "%a";
  for (int i = 0; i < 120; ++i) {
    std::string next = "%t" + std::to_string(i);
    body += next + " = math.tanh " + last + " : tensor<?x?x?xf32>\n";
    last = next;
  }
  Compiled deep = compile(R"(kvc.policy @deep {
      %w = arith.constant 16 : index
      %a = kvc.attention last(%w) : tensor<?x?x?xf32>
      )" + body + "%q = kvc.reduce mean queries " +
                          last +
                          R"( : tensor<?x?x?xf32> -> tensor<?x?xf32>
      %g = kvc.reduce max group %q : tensor<?x?xf32> -> tensor<?x?xf32>
      %n = kvc.allocate uniform : tensor<?xi32>
      %m = kvc.topk %g, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
      kvc.keep %m : tensor<?x?xi1>
    })");
  EXPECT_EQ(deep.refused.find("host kernel 'deep_columns0_d16_g16_f32' must "
                              "need at most 98304 bytes of stack, got "),
            0u)
      << deep.refused;
  EXPECT_TRUE(deep.faults.empty());
}

} // namespace
