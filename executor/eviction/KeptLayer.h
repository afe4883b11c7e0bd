//===- KeptLayer.h - a layer before and after a policy, on the host -------===//

#ifndef KVC_EXECUTOR_EVICTION_KEPTLAYER_H
#define KVC_EXECUTOR_EVICTION_KEPTLAYER_H

#include "executor/io/Bytes.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvc::rt {

/// What merged rows represent, head after head.
struct MemberTable {
  std::vector<int32_t> counts;          // [Hkv]
  std::vector<int32_t> rows, positions; // [sum of counts]
  std::vector<float> norms;             // [sum of counts]
};

/// One sequence of one layer: rows of elements of the plan's type. A cache of rows
/// has `lengths` and `positions`, and its k, v and kRaw are [rows, d], head after head.
struct LayerSequence {
  uint32_t tokens = 0;                // T
  const int32_t *lengths = nullptr;   // [Hkv] rows of each head
  const int32_t *positions = nullptr; // [rows], ascending in each head
  const std::byte *k = nullptr;       // [Hkv, T, d]
  const std::byte *v = nullptr;       // [Hkv, T, d]
  const std::byte *kRaw = nullptr;    // [Hkv, T, d], keys before RoPE; or null
  const std::byte *q = nullptr;       // [Hq, queries, d], the last queries
  uint32_t queries = 0;
  const float *lse = nullptr;    // [Hq, queries], natural; or null
  uint32_t budget = 0;           // B
  const std::byte *wo = nullptr; // [hidden, Hq * d]; or null
  uint32_t hidden = 0;
  /// Queries that no earlier run has had; unset: T.
  std::optional<uint32_t> newQueries;
  /// What rows carry, in the order of the manifest's states, each laid out as the rows
  /// of k; null, or beyond the end: 0.
  std::vector<const float *> states;
  /// Of a merged cache, whose k are keys before RoPE; null: not merged.
  const MemberTable *members = nullptr;
  /// Tokens that earlier runs have had behind the prompt.
  uint32_t since = 0;
};

struct KeptSequence {
  std::vector<int32_t> counts;  // [Hkv]
  std::vector<int32_t> indices; // [sum of counts]
  Bytes k, v;                   // [sum of counts, d]
  uint32_t past = 0;            // tokens ranked, 0 if none were
  std::vector<float> scores;    // [Hkv, past]; of rows [those that were ranked]
  std::vector<int32_t> positions; // [sum of counts], of rows only
  MemberTable members;            // empty where the policy does not merge
  std::vector<std::vector<float>>
      states; // [states][sum of counts], if asked for
};

struct KeptLayer {
  std::vector<KeptSequence> sequences;
  bool nanScores = false;
  /// In place, in pages: how many held rows, and how many of these hold none any more.
  size_t pages = 0, freedPages = 0;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_KEPTLAYER_H
