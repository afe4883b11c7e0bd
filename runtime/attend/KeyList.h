//===- KeyList.h - what the queries of one head see -----------------------===//

#ifndef KVC_RUNTIME_ATTEND_KEYLIST_H
#define KVC_RUNTIME_ATTEND_KEYLIST_H

#include "kvc/attend.h"
#include "runtime/attend/TileKernel.h"
#include "runtime/cache/CacheView.h"

namespace kvc::rt {

/// Some keys that follow each other: where they lie, and from which position on they
/// are seen.
struct KeyTile {
  uint32_t first, count;
  const std::byte *keys[tileKeys], *values[tileKeys];
  int32_t positions[tileKeys];

  int32_t largestPosition() const;
};

using RotatedKeys = float[tileKeys][KVC_MAX_HEAD_DIM];

/// The rows of one head of one sequence, or the members that they represent.
class KeyList {
public:
  KeyList(const CacheView &cache, const kvc_attend_args &args,
          uint32_t sequence, uint32_t head);

  uint32_t size() const { return count; }
  /// Keys from `first` on that are below `end`, at most tileKeys.
  void load(uint64_t first, uint64_t end, KeyTile &tile) const;
  /// Makes the keys of members, in `to`, and lets the tile point there.
  void rotate(KeyTile &tile, RotatedKeys &to) const;

private:
  const CacheView &cache;
  const kvc_attend_args &args;
  HeadPlane keys, values, positions;
  const kvc_member_table *members;
  size_t firstMember = 0;
  uint32_t count;

  void rotate(size_t entry, const std::byte *unit, float *key) const;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_ATTEND_KEYLIST_H
