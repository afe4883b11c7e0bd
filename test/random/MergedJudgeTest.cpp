//===- MergedJudgeTest.cpp - what is wrong of merged caches is seen --------===//
//
// As JudgeTest.cpp, of a cache whose rows represent members and merge again.
//
//===----------------------------------------------------------------------===//

#include "test/matrix/ExpectFaults.h"
#include "test/matrix/HeldRows.h"
#include "test/matrix/Tolerance.h"
#include "test/random/MergingPolicy.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace kvc;

namespace {

/// A policy whose rows carry a number, and with `atMost` have 25 members at most.
std::string policyOf(const std::string &atMost) {
  return random::mergingPolicy(
      "raw_key", atMost + "carry(\"norm\" = %s : tensor<?x?xf32>)");
}

class MergedJudgeTest : public testing::Test {
protected:
  mlir::MLIRContext context;
  test::Problem problem{{2, 2, 16, KVC_F32}, 60, 12, test::Keys::Random, 8, 40};
  reference::Kept want;
  rt::KeptSequence right;

  void prepare(const std::string &text) {
    context.loadDialect<KVCDialect, mlir::arith::ArithDialect>();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    std::vector<bool> rows(60);
    for (size_t t = 0; t < rows.size(); ++t)
      rows[t] = t % 3 != 1;
    problem.hold({rows, rows});
    problem.merge(3);
    want = *reference::interpret(*module->getOps<PolicyOp>().begin(),
                                 problem.layer);
    for (int64_t g = 0; g < 2; ++g)
      addHead(g);
  }

  /// What kernels without a fault would hand back.
  void addHead(int64_t g) {
    const reference::Layer &layer = problem.layer;
    right.past = uint32_t(want.past);
    right.scores.insert(right.scores.end(), want.scores[g].begin(),
                        want.scores[g].end());
    right.counts.push_back(int32_t(want.tokens[g].size()));
    right.states.resize(1);
    for (double number : want.carried[0].numbers[g])
      right.states[0].push_back(float(number));
    const double *to = &want.merge->destination.data[g * want.past];
    const double *weights = &want.merge->weight.data[g * want.past];
    for (int64_t own : want.tokens[g]) {
      right.indices.push_back(int32_t(own));
      for (auto [rows, side] :
           {std::pair(&right.k, &layer.kRaw), {&right.v, &layer.v}})
        for (int64_t e = 0; e < layer.headDim; ++e) {
          double sum = 0, weight = 0;
          for (int64_t t = 0; t < want.past; ++t)
            if (t == own || int64_t(to[t]) == own) {
              sum += weights[t] * (*side)[(g * 60 + t) * 16 + e];
              weight += weights[t];
            }
          auto x = float(sum / weight);
          auto bytes = reinterpret_cast<const std::byte *>(&x);
          rows->insert(rows->end(), bytes, bytes + sizeof x);
        }
    }
    right.members.counts.push_back(int32_t(want.members[g].size()));
    for (const reference::Kept::Member &member : want.members[g]) {
      auto row = std::ranges::find(want.tokens[g], member.row);
      right.members.rows.push_back(int32_t(row - want.tokens[g].begin()));
      right.members.positions.push_back(int32_t(member.position));
      right.members.norms.push_back(float(member.norm));
    }
  }

  /// The faults of a result that `damage` has been done to.
  std::string faults(llvm::function_ref<void(rt::KeptSequence &)> damage) {
    rt::KeptSequence got = right;
    damage(got);
    test::Tolerance margin(want, 1e-5, /*swap=*/0);
    return test::textOf(test::judge(problem, got, want, margin));
  }
  void sees(const std::string &fault,
            llvm::function_ref<void(rt::KeptSequence &)> damage) {
    test::expectFault(faults(damage), fault);
  }

  static void remove(rt::MemberTable &table, long member) {
    table.rows.erase(table.rows.begin() + member);
    table.positions.erase(table.positions.begin() + member);
    table.norms.erase(table.norms.begin() + member);
    --table.counts[0];
  }
  static void add(rt::Bytes &rows, size_t channel, float more) {
    float x;
    std::memcpy(&x, &rows[channel * sizeof x], sizeof x);
    x += more;
    std::memcpy(&rows[channel * sizeof x], &x, sizeof x);
  }
};

} // namespace

TEST_F(MergedJudgeTest, SeesWrongTables) {
  prepare(policyOf(""));
  EXPECT_EQ(faults([](rt::KeptSequence &) {}), "");
  ASSERT_GT(right.members.rows.size(), right.indices.size());
  const auto &from = problem.layer.members->rows[0];
  auto rowOf = [&](size_t member) {
    return from[size_t(right.members.positions[member])];
  };
  auto membersOf = [&](int64_t row) {
    long count = 0;
    for (size_t i = 0; i < size_t(right.members.counts[0]); ++i)
      count += rowOf(i) == row;
    return count;
  };
  // The only member of a row that has joined another, and one of several.
  size_t only = 0, all = size_t(right.members.counts[0]);
  while (only < all && (std::ranges::count(want.tokens[0], rowOf(only)) ||
                        membersOf(rowOf(only)) != 1))
    ++only;
  ASSERT_LT(only, all);
  sees("should be merged into ",
       [&](rt::KeptSequence &got) { remove(got.members, long(only)); });
  sees("members, not ", [&](rt::KeptSequence &got) {
    long i = 0;
    while (rowOf(size_t(i)) == right.members.positions[size_t(i)])
      ++i;
    remove(got.members, i);
  });
  sees("has norm ",
       [](rt::KeptSequence &got) { got.members.norms[5] *= 1.01f; });
  sees(" behind one at ",
       [](rt::KeptSequence &got) { got.members.positions[4] = 1; });
  sees("a member of row 12 of 12",
       [](rt::KeptSequence &got) { got.members.rows[2] = 12; });
  sees("the table's counts do not add up",
       [](rt::KeptSequence &got) { got.members.rows.push_back(0); });
  // It goes to another row.
  sees("is merged into ", [&](rt::KeptSequence &got) {
    got.members.rows[only] = (got.members.rows[only] + 1) % 12;
  });
}

TEST_F(MergedJudgeTest, SeesWrongRows) {
  prepare(policyOf(""));
  for (size_t row = 0; row < 12; ++row) {
    sees("row", [&](rt::KeptSequence &got) { add(got.k, row * 16, 1e-2f); });
    sees("row", [&](rt::KeptSequence &got) { add(got.v, row * 16, 1e-2f); });
    sees("carries ",
         [&](rt::KeptSequence &got) { got.states[0][row] *= 1.001f; });
  }
}

TEST_F(MergedJudgeTest, KnowsThatMembersMayGo) {
  prepare(policyOf("at_most(%most) "));
  EXPECT_EQ(faults([](rt::KeptSequence &) {}), "");
  ASSERT_EQ(right.members.counts[0], 25);
  sees("24 members, not 25",
       [](rt::KeptSequence &got) { remove(got.members, 0); });
}
