//===- RaggedCache.h - keys and values of one layer, ragged by head -------===//
//
//   head 0            head 1
//   [kept rows|slack] [kept rows|slack] ...      one block of K, one of V
//
// A merged cache holds unit keys before RoPE, and per head a list of members:
// the tokens that its rows represent. A member's key is norm * RoPE(row's key)
// at the member's position, its value the row's.
//
// New tokens are appended in place into the slack; when it is used up the layer
// is laid out anew with more. Rows are not positions: each row remembers the one of
// its token, for a policy that ranks it again, and the position of the next token is
// the executor's business.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_MODEL_RAGGEDCACHE_H
#define KVC_EXECUTOR_MODEL_RAGGEDCACHE_H

#include "kvc/kvc.h"
#include "executor/model/Rope.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kvc::rt {

/// A token that a row represents.
struct Member {
  uint32_t row, position;
  float norm; // of the token's own key
};

class RaggedCache {
public:
  RaggedCache(uint32_t heads, uint32_t headDim, kvc_dtype dtype);

  /// What is appended to a head of a merged cache: the tokens that the rows
  /// represent, `row` counted among the rows that come with them.
  using Members = std::vector<std::vector<Member>>; // [heads]
  /// What rows carry, by name: a number for each row, head after head.
  using States = std::map<std::string, std::vector<float>>;
  /// Appends rows of elements, head after head, more[h] of them; `members` is
  /// empty unless the rows are a merged cache's. `positions` are those of the
  /// rows' tokens; empty where nobody knows them. Rows carry 0 by names that `states`
  /// lacks.
  void append(const std::vector<int32_t> &more, const std::byte *k,
              const std::byte *v, const Members &members = {},
              const std::vector<int32_t> &positions = {},
              const States &states = {});
  /// Appends tokens at positions from `position` on, in fp32: k, v
  /// [heads, tokens, headDim]. To a merged cache: keys before RoPE.
  void append(const float *k, const float *v, uint32_t tokens,
              uint32_t position);

  /// All that a cache holds, rows head after head.
  struct Contents {
    std::vector<int32_t> counts; // [heads]
    std::vector<std::byte> k, v;
    Members members;
    std::vector<int32_t> positions; // of the rows; empty: not known
    States states;
  };
  Contents contents() const;
  void clear();

  bool merged() const { return !members.empty(); }
  /// The position of every row's token is known.
  bool placed() const { return !unplaced; }
  uint32_t rows(uint32_t head) const { return counts[head]; }
  /// What a query attends to: rows, or the tokens that rows represent, in fp32,
  /// keys after RoPE: k, v [count, headDim]. Either the cache's own memory,
  /// until it changes, or made in `k` and `v`.
  struct Attended {
    const float *k, *v;
    size_t count;
  };
  Attended attended(uint32_t head, const Rope &rope, std::vector<float> &k,
                    std::vector<float> &v) const;
  /// Bytes of the rows in use, K and V, and of the members. The rows' positions and
  /// what they carry, 4 bytes each, are not counted.
  size_t usedBytes() const;

  kvc_dtype dtype;

private:
  uint32_t heads, headDim;
  size_t rowBytes;
  std::vector<uint32_t> counts, capacities;
  std::vector<size_t> offsets;
  std::vector<std::byte> keys, values;
  Members members;                             // empty if not merged
  std::vector<std::vector<int32_t>> positions; // [heads]
  std::map<std::string, std::vector<std::vector<float>>> states; // [heads]
  bool unplaced = false;

  void makeRoom(const std::vector<int32_t> &more);
  void read(const std::vector<std::byte> &from, uint32_t head, uint32_t row,
            float *out) const;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_MODEL_RAGGEDCACHE_H
