//===- RowsCall.h - a policy on one layer of a cache of rows --------------===//

#ifndef KVC_TEST_MATRIX_ROWSCALL_H
#define KVC_TEST_MATRIX_ROWSCALL_H

#include "test/runtime/SmallCache.h"

#include <memory>

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
  std::vector<std::vector<float>> wo; // [hidden * q_heads][d]
  std::vector<float> table;           // [layers, q_heads]
  /// How many layers in front have kept a token, [batch, longest]; empty where the
  /// policy does not ask.
  std::vector<int32_t> keptLayers;
  /// How many queries are new, [batch]; empty: nobody says.
  std::vector<int32_t> newQueries;
  /// What rows carry so far, [states][batch * heads][rows]; empty: 0.
  std::vector<std::vector<std::vector<float>>> states;
  /// What they carry on is asked for.
  bool carries = true;
};

/// What one head keeps.
struct RowsKept {
  std::vector<int32_t> indices, positions;
  std::vector<std::byte> k, v;
  std::vector<float> scores; // of its past; empty: nothing was ranked
  std::vector<std::vector<float>> states; // [states][kept]
  bool operator==(const RowsKept &other) const;
};

/// Heads of all sequences.
struct RowsResult {
  std::vector<RowsKept> heads;
  std::vector<int32_t> keptLayers; // this one counted as well
  int32_t status = 0;
};
/// Where kept rows go that are not packed.
struct Placement {
  /// May be the cache itself: rows move within it. Behind the call it holds what was
  /// kept.
  Laid *into;
  bool tail = false;
  /// [batch * heads][2]: first and number of entries whose pages became free; filled
  /// where rows move within pages.
  std::vector<int32_t> freed;
};

/// `raw`: keys before RoPE, laid out as `cache` is, or null. `prompt`: the cache is
/// given as a dense prompt, without a view. `placement`: null packs what is kept.
RowsResult evictRows(kvc_module *module, const Laid &cache, const Laid *raw,
                     const RowsInput &input, bool prompt = false,
                     Placement *placement = nullptr);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_ROWSCALL_H
