//===- RowsInput.h - what a layer brings beside its cache -----------------===//

#ifndef KVC_TEST_MATRIX_ROWSINPUT_H
#define KVC_TEST_MATRIX_ROWSINPUT_H

#include "dialect/KVCDialect.h"
#include "test/matrix/HeadMembers.h"
#include "test/runtime/SmallCache.h"

#include <optional>

namespace kvc::test {

/// What a layer brings beside its cache.
struct RowsInput {
  uint32_t group;
  uint32_t tokens; // of the longest sequence
  int64_t layer = 0, layers = 1;
  std::vector<int32_t> budgets; // [batch]
  uint32_t queries;
  std::vector<std::vector<float>> q; // [batch * q_heads * queries][d]
  uint32_t hidden;
  /// [hidden * q_heads][d], or that of each sequence
  std::vector<std::vector<float>> wo;
  std::vector<float> table; // [layers, q_heads]
  /// How many layers in front have kept a token, [batch, longest]; empty where the
  /// policy does not ask.
  std::vector<int32_t> keptLayers;
  /// How many queries are new, [batch]; empty: nobody says.
  std::vector<int32_t> newQueries;
  /// What rows carry so far, [states][batch * heads][rows]; empty: 0.
  std::vector<std::vector<std::vector<float>>> states;
  /// What they carry on is asked for.
  bool carries = true;
  /// Of a merged cache, [batch * heads]; empty: rows are not merged.
  std::vector<HeadMembers> members;
  /// What a call says that is wrong: angles, and members of the first head.
  std::optional<uint32_t> wrongAngles;
  std::optional<int32_t> wrongMembers;
  /// Tokens of earlier runs behind the prompt, [batch]; empty: none.
  std::vector<int32_t> since;
};

/// How many of the last queries a call brings, whose longest sequence has `most` tokens:
/// a window's also where there are fewer tokens.
uint32_t queriesRead(PolicyOp policy, uint32_t most);

/// What a policy reads, drawn for a cache. Rows of a merged cache represent themselves and
/// some more tokens.
RowsInput drawInput(PolicyOp policy, const Cache &cache, int64_t group,
                    int64_t layer, Random &random);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_ROWSINPUT_H
