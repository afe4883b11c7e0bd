//===- KeyList.cpp - what the queries of one head see ---------------------===//

#include "runtime/attend/KeyList.h"

#include "runtime/base/DType.h"

#include <algorithm>
#include <cstring>

using namespace kvc::rt;

int32_t KeyTile::largestPosition() const {
  return *std::max_element(positions, positions + count);
}

KeyList::KeyList(const CacheView &cache, const kvc_attend_args &args,
                 uint32_t s, uint32_t g)
    : cache(cache), args(args), keys(cache.keys(s, g)),
      values(cache.values(s, g)), positions(cache.positions(s, g)),
      members(cache.members()), count(uint32_t(cache.count(s, g))) {
  if (!members)
    return;
  firstMember = cache.membersAt(s, g);
  count = uint32_t(cache.memberCount(s, g));
}

void KeyList::load(uint64_t first, uint64_t end, KeyTile &tile) const {
  tile.first = uint32_t(first);
  tile.count =
      first < end ? uint32_t(std::min<uint64_t>(tileKeys, end - first)) : 0;
  for (uint32_t i = 0; i < tile.count; ++i) {
    uint32_t row = tile.first + i;
    tile.positions[i] = int32_t(row);
    if (members) {
      tile.positions[i] = members->positions[firstMember + row];
      row = uint32_t(members->rows[firstMember + row]);
    } else if (positions) {
      std::memcpy(&tile.positions[i], positions[row], sizeof(int32_t));
    }
    tile.keys[i] = keys[row];
    tile.values[i] = values[row];
  }
}

void KeyList::rotate(KeyTile &tile, RotatedKeys &to) const {
  for (uint32_t i = 0; i < tile.count; ++i) {
    rotate(firstMember + tile.first + i, tile.keys[i], to[i]);
    tile.keys[i] = reinterpret_cast<const std::byte *>(to[i]);
  }
}

void KeyList::rotate(size_t entry, const std::byte *unit, float *key) const {
  uint32_t dim = cache.fields().head_dim, half = dim / 2;
  float norm = members->norms[entry], widened[KVC_MAX_HEAD_DIM];
  widen(widened, unit, dim, cache.fields().dtype);
  const float *turn = args.rope + size_t(members->positions[entry]) * dim;
  for (uint32_t i = 0; i < half; ++i) {
    float c = turn[2 * i], s = turn[2 * i + 1];
    key[i] = (widened[i] * c - widened[i + half] * s) * norm;
    key[i + half] = (widened[i + half] * c + widened[i] * s) * norm;
  }
}
