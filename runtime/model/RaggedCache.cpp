//===- RaggedCache.cpp - keys and values of one layer, ragged by head -----===//

#include "runtime/model/RaggedCache.h"

#include "runtime/base/Half.h"
#include "runtime/plan/Manifest.h"

#include <cmath>
#include <cstring>

using namespace kvc::rt;

std::vector<std::byte> kvc::rt::narrow(const float *values, size_t count,
                                       kvc_dtype dtype) {
  std::vector<std::byte> bytes(count * dtypeBytes(dtype));
  if (dtype == KVC_F32) {
    std::memcpy(bytes.data(), values, bytes.size());
    return bytes;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits = dtype == KVC_F16 ? toF16(values[i]) : toBF16(values[i]);
    std::memcpy(bytes.data() + i * 2, &bits, 2);
  }
  return bytes;
}

RaggedCache::RaggedCache(uint32_t heads, uint32_t headDim, kvc_dtype dtype)
    : heads(heads), headDim(headDim), dtype(dtype),
      rowBytes(headDim * dtypeBytes(dtype)), counts(heads), offsets(heads),
      capacities(heads) {}

/// Moves every head to its place with `slack` free rows behind it.
void RaggedCache::layOut(uint32_t slack) {
  std::vector<uint32_t> places;
  size_t total = 0;
  for (uint32_t h = 0; h < heads; ++h) {
    places.push_back(uint32_t(total));
    total += counts[h] + slack;
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
  for (uint32_t h = 0; h < heads; ++h)
    capacities[h] = counts[h] + slack;
}

void RaggedCache::assign(const std::vector<int32_t> &newCounts,
                         const std::byte *k, const std::byte *v,
                         uint32_t slack) {
  uint32_t total = 0;
  for (uint32_t h = 0; h < heads; ++h) {
    offsets[h] = total;
    counts[h] = uint32_t(newCounts[h]);
    total += counts[h];
  }
  keys.assign(k, k + total * rowBytes);
  values.assign(v, v + total * rowBytes);
  layOut(slack);
}

void RaggedCache::setMembers(std::vector<std::vector<Member>> table) {
  members = std::move(table);
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

void RaggedCache::append(const float *k, const float *v, uint32_t position) {
  std::vector<float> units;
  if (merged()) {
    units.assign(k, k + heads * headDim);
    for (uint32_t h = 0; h < heads; ++h)
      members[h].push_back(
          {counts[h], position, toUnit(&units[h * headDim], headDim)});
    k = units.data();
  }
  for (uint32_t h = 0; h < heads; ++h)
    if (counts[h] == capacities[h]) {
      layOut(64);
      break;
    }
  for (uint32_t h = 0; h < heads; ++h) {
    size_t at = (offsets[h] + counts[h]++) * rowBytes;
    for (auto [side, from] : {std::pair{&keys, k}, {&values, v}}) {
      std::vector<std::byte> row = narrow(from + h * headDim, headDim, dtype);
      std::memcpy(side->data() + at, row.data(), rowBytes);
    }
  }
}

void RaggedCache::read(const std::vector<std::byte> &from, uint32_t head,
                       uint32_t row, float *out) const {
  const std::byte *at = from.data() + (offsets[head] + row) * rowBytes;
  if (dtype == KVC_F32) {
    std::memcpy(out, at, rowBytes);
    return;
  }
  for (uint32_t d = 0; d < headDim; ++d) {
    uint16_t bits;
    std::memcpy(&bits, at + d * 2, 2);
    out[d] = dtype == KVC_F16 ? fromF16(bits) : fromBF16(bits);
  }
}

void RaggedCache::readKey(uint32_t head, uint32_t row, float *out) const {
  read(keys, head, row, out);
}
void RaggedCache::readValue(uint32_t head, uint32_t row, float *out) const {
  read(values, head, row, out);
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
