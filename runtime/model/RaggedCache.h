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
// is laid out anew with more. Rows are not positions: the position of the next
// token is the executor's business.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_MODEL_RAGGEDCACHE_H
#define KVC_RUNTIME_MODEL_RAGGEDCACHE_H

#include "kvc/kvc.h"

#include <cstddef>
#include <cstdint>
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

  /// Replaces the contents: rows head after head, counts[h] of them.
  void assign(const std::vector<int32_t> &counts, const std::byte *k,
              const std::byte *v, uint32_t slack);
  /// Makes the contents a merged cache's: what its rows represent, per head.
  void setMembers(std::vector<std::vector<Member>> table);
  bool merged() const { return !members.empty(); }
  /// Members of a head of a merged cache, oldest first.
  const std::vector<Member> &membersOf(uint32_t head) const {
    return members[head];
  }

  /// Appends one fp32 row per head: k, v [heads, headDim]. To a merged cache:
  /// keys before RoPE, of the token at `position`.
  void append(const float *k, const float *v, uint32_t position);

  uint32_t rows(uint32_t head) const { return counts[head]; }
  /// Row `row` of a head, widened to fp32.
  void readKey(uint32_t head, uint32_t row, float *out) const;
  void readValue(uint32_t head, uint32_t row, float *out) const;
  /// Bytes of the rows in use, K and V, and of the members.
  size_t usedBytes() const;

private:
  uint32_t heads, headDim;
  kvc_dtype dtype;
  size_t rowBytes;
  std::vector<uint32_t> counts, offsets, capacities;
  std::vector<std::byte> keys, values;
  std::vector<std::vector<Member>> members; // [heads]; empty if not merged

  void layOut(uint32_t slack);
  void read(const std::vector<std::byte> &from, uint32_t head, uint32_t row,
            float *out) const;
};

/// fp32 to elements of a type, to nearest even.
std::vector<std::byte> narrow(const float *values, size_t count,
                              kvc_dtype dtype);

} // namespace kvc::rt

#endif // KVC_RUNTIME_MODEL_RAGGEDCACHE_H
