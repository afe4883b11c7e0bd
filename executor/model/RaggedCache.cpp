//===- RaggedCache.cpp - keys and values of one layer, ragged by head -----===//

#include "executor/model/RaggedCache.h"

#include "runtime/base/DType.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kvc::rt;

RaggedCache::RaggedCache(uint32_t heads, uint32_t headDim, kvc_dtype dtype)
    : dtype(dtype), heads(heads), headDim(headDim),
      rowBytes(headDim * dtypeBytes(dtype)), counts(heads), capacities(heads),
      offsets(heads), positions(heads) {}

/// Room for so many rows behind each head's own. Where one lacks it, the layer
/// is laid out anew with some free rows more.
void RaggedCache::makeRoom(const std::vector<int32_t> &more) {
  constexpr uint32_t slack = 64;
  bool fits = true;
  for (uint32_t h = 0; h < heads; ++h)
    fits &= counts[h] + uint32_t(more[h]) <= capacities[h];
  if (fits)
    return;
  std::vector<size_t> places;
  size_t total = 0;
  for (uint32_t h = 0; h < heads; ++h) {
    capacities[h] = counts[h] + uint32_t(more[h]) + slack;
    places.push_back(total);
    total += capacities[h];
  }
  for (std::vector<std::byte> *side : {&keys, &values}) {
    std::vector<std::byte> moved(total * rowBytes);
    for (uint32_t h = 0; h < heads; ++h)
      if (counts[h])
        std::memcpy(moved.data() + places[h] * rowBytes,
                    side->data() + offsets[h] * rowBytes, counts[h] * rowBytes);
    side->swap(moved);
  }
  offsets = places;
}

void RaggedCache::append(const std::vector<int32_t> &more, const std::byte *k,
                         const std::byte *v, const Members &table,
                         const std::vector<int32_t> &places,
                         const States &carried) {
  makeRoom(more);
  for (const auto &[name, numbers] : carried) {
    auto &mine = states[name];
    mine.resize(heads);
    auto number = numbers.begin();
    for (uint32_t h = 0; h < heads; number += more[h++]) {
      mine[h].resize(counts[h]); // 0 for rows that came without it
      mine[h].insert(mine[h].end(), number, number + more[h]);
    }
  }
  if (!table.empty())
    members.resize(heads);
  unplaced |= places.empty() && std::any_of(more.begin(), more.end(),
                                            [](int32_t n) { return n; });
  auto place = places.begin();
  for (uint32_t h = 0; h < heads; ++h) {
    size_t bytes = size_t(more[h]) * rowBytes;
    size_t at = (offsets[h] + counts[h]) * rowBytes;
    if (bytes) {
      std::memcpy(keys.data() + at, k, bytes);
      std::memcpy(values.data() + at, v, bytes);
    }
    k += bytes;
    v += bytes;
    for (size_t i = 0; !table.empty() && i < table[h].size(); ++i) {
      Member member = table[h][i];
      member.row += counts[h];
      members[h].push_back(member);
    }
    if (!places.empty())
      positions[h].insert(positions[h].end(), place, place + more[h]);
    place += places.empty() ? 0 : more[h];
    counts[h] += uint32_t(more[h]);
  }
  for (auto &[name, numbers] : states)
    for (uint32_t h = 0; h < heads; ++h)
      numbers[h].resize(counts[h]);
}

/// Divides a vector by its norm, which is returned; 0 stays 0.
static float toUnit(float *vector, uint32_t dim) {
  double squares = 0;
  for (uint32_t d = 0; d < dim; ++d)
    squares += double(vector[d]) * vector[d];
  auto norm = float(std::sqrt(squares));
  for (uint32_t d = 0; d < dim && norm != 0; ++d)
    vector[d] /= norm;
  return norm;
}

void RaggedCache::append(const float *k, const float *v, uint32_t tokens,
                         uint32_t position) {
  size_t count = size_t(heads) * tokens * headDim;
  std::vector<float> units;
  Members table;
  if (merged()) {
    units.assign(k, k + count);
    table.resize(heads);
    for (uint32_t h = 0; h < heads; ++h)
      for (uint32_t t = 0; t < tokens; ++t)
        table[h].push_back(
            {t, position + t,
             toUnit(&units[(size_t(h) * tokens + t) * headDim], headDim)});
    k = units.data();
  }
  std::vector<int32_t> places;
  for (uint32_t h = 0; h < heads; ++h)
    for (uint32_t t = 0; t < tokens; ++t)
      places.push_back(int32_t(position + t));
  append(std::vector<int32_t>(heads, int32_t(tokens)),
         narrow(k, count, dtype).data(), narrow(v, count, dtype).data(), table,
         places);
}

RaggedCache::Contents RaggedCache::contents() const {
  Contents all;
  all.counts.assign(counts.begin(), counts.end());
  for (uint32_t h = 0; h < heads; ++h)
    for (auto [from, to] : {std::pair{&keys, &all.k}, {&values, &all.v}}) {
      const std::byte *at = from->data() + offsets[h] * rowBytes;
      to->insert(to->end(), at, at + counts[h] * rowBytes);
    }
  all.members = members;
  for (uint32_t h = 0; h < heads && placed(); ++h)
    all.positions.insert(all.positions.end(), positions[h].begin(),
                         positions[h].end());
  for (const auto &[name, numbers] : states)
    for (const std::vector<float> &head : numbers)
      all.states[name].insert(all.states[name].end(), head.begin(), head.end());
  return all;
}

void RaggedCache::clear() { *this = RaggedCache(heads, headDim, dtype); }

void RaggedCache::read(const std::vector<std::byte> &from, uint32_t head,
                       uint32_t row, float *out) const {
  widen(out, from.data() + (offsets[head] + row) * rowBytes, headDim, dtype);
}

RaggedCache::Attended RaggedCache::attended(uint32_t head, const Rope &rope,
                                            std::vector<float> &k,
                                            std::vector<float> &v) const {
  if (dtype == KVC_F32 && !merged()) {
    size_t at = offsets[head] * rowBytes;
    return {reinterpret_cast<const float *>(keys.data() + at),
            reinterpret_cast<const float *>(values.data() + at), counts[head]};
  }
  const Member *table = merged() ? members[head].data() : nullptr;
  size_t count = table ? members[head].size() : counts[head];
  k.resize(count * headDim);
  v.resize(count * headDim);
  for (size_t i = 0; i < count; ++i) {
    uint32_t row = table ? table[i].row : uint32_t(i);
    float *key = &k[i * headDim];
    read(keys, head, row, key);
    read(values, head, row, &v[i * headDim]);
    if (!table)
      continue;
    rope.rotate(key, table[i].position);
    for (uint32_t d = 0; d < headDim; ++d)
      key[d] *= table[i].norm;
  }
  return {k.data(), v.data(), count};
}

size_t RaggedCache::usedBytes() const {
  size_t rows = 0;
  for (uint32_t count : counts)
    rows += count;
  size_t entries = 0;
  for (const std::vector<Member> &head : members)
    entries += head.size();
  return rows * rowBytes * 2 + entries * sizeof(Member);
}
