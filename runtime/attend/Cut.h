//===- Cut.h - how a call of attention becomes items of work --------------===//

#ifndef KVC_RUNTIME_ATTEND_CUT_H
#define KVC_RUNTIME_ATTEND_CUT_H

#include "runtime/attend/TileKernel.h"

#include <cstdint>

namespace kvc::rt {

/// A block of a KV head's query rows against a split of its keys. Row i of a head is
/// query i / group of its query head i % group.
struct Item {
  uint32_t sequence, head, block, split;
  uint32_t firstRow, rows;
  uint64_t number; // of sequence, head and block together
};

/// How work is cut follows from the numbers of queries and keys alone: the same sums
/// are made whoever makes them. Keys are split where there are few query rows, or a
/// machine of many cores would wait for one head.
struct Cut {
  Cut(uint32_t sequences, uint32_t heads, uint32_t group, uint32_t queries,
      uint64_t mostKeys);

  uint64_t items() const {
    return uint64_t(sequences) * heads * blocks * splits;
  }
  Item item(uint64_t index) const;
  /// Splits that have keys, of so many keys.
  uint32_t splitsOf(uint32_t keys) const;
  /// Floats of what an item hands on: values of each row, their most, their weight.
  size_t partFloats(uint32_t dim) const { return tileRows * (size_t(dim) + 2); }
  size_t workspaceBytes(uint32_t dim) const;
  /// Of calls of as many queries and of fewer.
  size_t mostWorkspaceBytes(uint32_t dim) const;

  uint32_t sequences, heads, group, queryRows, blocks, splits;
  uint32_t splitKeys;
  uint64_t mostKeys;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_ATTEND_CUT_H
