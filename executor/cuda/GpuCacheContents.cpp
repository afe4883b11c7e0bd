//===- GpuCacheContents.cpp - a cache on a GPU, to the host and back ------===//

#include "executor/cuda/GpuCache.h"

#include <algorithm>

using namespace kvc::gpu;
namespace rt = kvc::rt;
using rt::Member;
using rt::RaggedCache;

RaggedCache::Contents GpuCache::contents(uint32_t index) const {
  const Layer &layer = layers[index];
  RaggedCache::Contents all;
  auto k = queue.downloaded<std::byte>(layer.k.data(), layer.k.bytes());
  auto v = queue.downloaded<std::byte>(layer.v.data(), layer.v.bytes());
  for (uint32_t h = 0; h < config.kvHeads; ++h) {
    size_t first = size_t(layer.hostOffsets[h]) * rowBytes;
    size_t bytes = rows(index, h) * rowBytes;
    all.counts.push_back(int32_t(rows(index, h)));
    for (auto [from, to] : {std::pair{&k, &all.k}, {&v, &all.v}})
      to->insert(to->end(), from->begin() + ptrdiff_t(first),
                 from->begin() + ptrdiff_t(first + bytes));
  }
  auto tokens = queue.downloaded<int32_t>(
      layer.positions.data(), layer.positions.bytes() / sizeof(int32_t));
  for (uint32_t h = 0; h < config.kvHeads && !layer.unplaced; ++h) {
    auto first = tokens.begin() + layer.hostOffsets[h];
    all.positions.insert(all.positions.end(), first, first + rows(index, h));
  }
  std::vector<float> numbers;
  if (layer.states) // a download waits for the device
    numbers = queue.downloaded<float>(layer.states.data(),
                                      layer.states.bytes() / sizeof(float));
  for (size_t j = 0; j < layer.stateNames.size(); ++j) {
    auto state = numbers.begin() + ptrdiff_t(j * places(layer));
    std::vector<float> &to = all.states[layer.stateNames[j]];
    for (uint32_t h = 0; h < config.kvHeads; ++h) {
      auto first = state + layer.hostOffsets[h];
      to.insert(to.end(), first, first + rows(index, h));
    }
  }
  if (layer.members)
    all.members = layer.members.contents(queue, layer.extra);
  return all;
}

void GpuCache::restore(uint32_t layer, const RaggedCache::Contents &contents) {
  std::vector<int32_t> offsets;
  int32_t total = 0;
  for (int32_t count : contents.counts) {
    offsets.push_back(total);
    total += count;
  }
  Buffer k = queue.uploaded(contents.k), v = queue.uploaded(contents.v);
  Buffer places = queue.uploaded(offsets);
  Buffer counts = queue.uploaded(contents.counts);
  KeptRows kept = {};
  kept.k = k.data();
  kept.v = v.data();
  kept.offsets = places.as<int32_t>();
  kept.counts = counts.as<int32_t>();
  kept.hostCounts = contents.counts;
  Buffer positions = queue.uploaded(contents.positions);
  if (!contents.positions.empty())
    kept.positions = positions.as<int32_t>();
  kept.positionsAt = {.at = places.as<int32_t>()};
  std::vector<float> numbers;
  for (const auto &[name, state] : contents.states) {
    kept.stateNames.push_back(name);
    numbers.insert(numbers.end(), state.begin(), state.end());
  }
  Buffer states = queue.uploaded(numbers);
  kept.states = states.as<float>();
  kept.statesRows = size_t(total);
  if (contents.members.empty())
    return append(layer, kept, 0);

  size_t capacity = 0;
  for (const auto &head : contents.members) {
    kept.members.hostCounts.push_back(int32_t(head.size()));
    capacity = std::max(capacity, head.size());
  }
  std::vector<int32_t> row(capacity * config.kvHeads), place(row.size());
  std::vector<float> norm(row.size());
  for (uint32_t h = 0; h < config.kvHeads; ++h)
    for (size_t i = 0; i < contents.members[h].size(); ++i) {
      const Member &member = contents.members[h][i];
      row[h * capacity + i] = int32_t(member.row);
      place[h * capacity + i] = int32_t(member.position);
      norm[h * capacity + i] = member.norm;
    }
  Buffer rowBuffer = queue.uploaded(row), placeBuffer = queue.uploaded(place),
         normBuffer = queue.uploaded(norm),
         countBuffer = queue.uploaded(kept.members.hostCounts);
  kept.members.rows = rowBuffer.as<int32_t>();
  kept.members.positions = placeBuffer.as<int32_t>();
  kept.members.norms = normBuffer.as<float>();
  kept.members.counts = countBuffer.as<int32_t>();
  kept.members.capacity = uint32_t(capacity);
  append(layer, kept, 0);
}
