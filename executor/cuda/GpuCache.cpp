//===- GpuCache.cpp - keys and values of one sequence, on a GPU -----------===//

#include "executor/cuda/GpuCache.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"

#include <algorithm>

using namespace kvc::gpu;
namespace rt = kvc::rt;

// Free rows of each head: so many tokens later a layer is laid out anew.
static constexpr uint32_t spare = 64;

GpuCache::GpuCache(Queue &queue, const rt::Config &config)
    : Cache(queue.dtype), queue(queue), config(config),
      rowBytes(config.headDim * rt::dtypeBytes(queue.dtype)),
      layers(config.layers) {
  for (Layer &layer : layers)
    empty(layer);
}

void GpuCache::empty(Layer &layer) const {
  layer = {};
  layer.hostOffsets.resize(config.kvHeads);
  layer.hostCounts.resize(config.kvHeads);
}

std::unique_ptr<rt::Cache> GpuCache::copy() const {
  auto result = std::make_unique<GpuCache>(queue, config);
  for (uint32_t l = 0; l < config.layers; ++l) {
    const Layer &from = layers[l];
    Layer &to = result->layers[l];
    for (Buffer Layer::*buffer :
         {&Layer::k, &Layer::v, &Layer::positions, &Layer::states,
          &Layer::offsets, &Layer::counts})
      to.*buffer = queue.cloned(from.*buffer);
    to.stateNames = from.stateNames;
    to.unplaced = from.unplaced;
    to.hostOffsets = from.hostOffsets;
    to.hostCounts = from.hostCounts;
    to.extra = from.extra;
    to.room = from.room;
    to.members = from.members.copy(queue);
  }
  return result;
}

void GpuCache::move(const MoveRowsArgs &args, uint32_t longest) {
  queue.launch("move_rows", {ceilDiv(longest, movedRows), config.kvHeads, 1},
               moveThreads, args);
}

void GpuCache::moveNumbers(MoveRowsArgs args, const float *from, float *to,
                           uint32_t longest) {
  // Rows of no words, whose positions are the numbers' bits.
  args.fromPositions = reinterpret_cast<const int32_t *>(from);
  args.toPositions = reinterpret_cast<int32_t *>(to);
  args.addPosition = 0;
  args.rowWords = 0;
  move(args, longest);
}

void GpuCache::layOut(Layer &layer, const std::vector<int32_t> &more,
                      uint32_t room) {
  uint32_t heads = config.kvHeads, extra = layer.extra;
  std::vector<int32_t> counts = layer.hostCounts, offsets;
  size_t total = 0;
  for (uint32_t h = 0; h < heads; ++h) {
    if (!more.empty())
      counts[h] += int32_t(extra) + more[h];
    offsets.push_back(int32_t(total));
    total += size_t(counts[h]) + room;
  }
  if (total > INT32_MAX)
    throw rt::fail(KVC_EXCEEDS_LIMITS,
                   "a layer of a cache must have at most {} rows, got {}",
                   INT32_MAX, total);
  Buffer k(queue, total * rowBytes), v(queue, total * rowBytes),
      positions(queue, total * sizeof(int32_t));
  Buffer places = queue.uploaded(offsets);
  MoveRowsArgs args = {.fromK = layer.k.data(),
                       .fromV = layer.v.data(),
                       .toK = k.data(),
                       .toV = v.data(),
                       .from = {.at = layer.offsets.as<int32_t>()},
                       .to = {.at = places.as<int32_t>()},
                       .counts = layer.counts.as<int32_t>(),
                       .extra = extra,
                       .rowWords = rowWords(),
                       .fromPositions = layer.positions.as<int32_t>(),
                       .toPositions = positions.as<int32_t>(),
                       .positionsFrom = {.at = layer.offsets.as<int32_t>()}};
  uint32_t longest = most(layer.hostCounts) + extra;
  move(args, longest);
  if (size_t count = layer.stateNames.size()) {
    Buffer states(queue, count * total * sizeof(float));
    queue.clear(states.data(), states.bytes());
    for (size_t j = 0; j < count; ++j)
      moveNumbers(args, layer.states.as<float>() + j * this->places(layer),
                  states.as<float>() + j * total, longest);
    layer.states = std::move(states);
  }
  layer.k = std::move(k);
  layer.v = std::move(v);
  layer.positions = std::move(positions);
  layer.offsets = std::move(places);
  layer.counts = queue.uploaded(counts);
  layer.hostOffsets = std::move(offsets);
  layer.hostCounts = std::move(counts);
  layer.extra = more.empty() ? extra : 0;
  layer.room = room;
}

void GpuCache::reserve(uint32_t tokens) {
  for (Layer &layer : layers)
    if (layer.extra + tokens > layer.room)
      layOut(layer, {}, layer.extra + tokens);
}

void GpuCache::join(Layer &layer, const GpuActivations &from,
                    uint32_t position) {
  layer.members.reserve(queue, layer.extra, layer.room);
  JoinArgs args = {.k = from.kRaw.data(),
                   .v = from.v.data(),
                   .toK = layer.k.data(),
                   .toV = layer.v.data(),
                   .positions = layer.positions.as<int32_t>(),
                   .offsets = layer.offsets.as<int32_t>(),
                   .counts = layer.counts.as<int32_t>(),
                   .extra = layer.extra,
                   .members = layer.members.args(),
                   .tokens = from.tokens,
                   .vRows = from.headRows,
                   .d = config.headDim,
                   .position = int32_t(position)};
  queue.launch("join_TYPE",
               {ceilDiv(from.tokens, movedRows), config.kvHeads, 1},
               moveThreads, args);
}

void GpuCache::append(uint32_t index, const rt::Activations &activations,
                      uint32_t position) {
  auto &from = static_cast<const GpuActivations &>(activations);
  Layer &layer = layers[index];
  if (layer.extra + from.tokens > layer.room)
    layOut(layer, {}, layer.extra + from.tokens + spare);
  if (layer.members)
    join(layer, from, position);
  else
    move({.fromK = from.k.data(),
          .fromV = from.v.data(),
          .toK = layer.k.data(),
          .toV = layer.v.data(),
          .from = {.stride = from.headRows},
          .to = {.at = layer.offsets.as<int32_t>(),
                 .plus = layer.counts.as<int32_t>(),
                 .extra = layer.extra},
          .extra = from.tokens,
          .rowWords = rowWords(),
          .toPositions = layer.positions.as<int32_t>(),
          .addPosition = int32_t(position)},
         from.tokens);
  layer.extra += from.tokens;
}

void GpuCache::append(uint32_t index, const KeptRows &kept, uint32_t position) {
  Layer &layer = layers[index];
  bool merges = kept.members.counts, empty = !layer.k;
  if (!empty && merges != bool(layer.members))
    throw rt::fail(KVC_INTERNAL_ERROR,
                   "merged rows go behind merged rows only");
  Buffer oldCounts = queue.cloned(layer.counts);
  uint32_t oldExtra = layer.extra;
  if (merges) {
    if (empty)
      layer.members.make(queue, config.kvHeads);
    layer.members.append(queue, kept.members, oldCounts.as<int32_t>(), oldExtra,
                         position, spare);
  }
  layOut(layer, kept.hostCounts, spare);
  MoveRowsArgs args = {.fromK = kept.k,
                       .fromV = kept.v,
                       .toK = layer.k.data(),
                       .toV = layer.v.data(),
                       .from = {.at = kept.offsets},
                       .to = {.at = layer.offsets.as<int32_t>(),
                              .plus = oldCounts.as<int32_t>(),
                              .extra = oldExtra},
                       .counts = kept.counts,
                       .rowWords = rowWords(),
                       .fromPositions = kept.positions,
                       .toPositions = layer.positions.as<int32_t>(),
                       .positionsFrom = kept.positionsAt,
                       .addPosition = kept.addPosition};
  move(args, most(kept.hostCounts));
  if (!kept.stateNames.empty()) {
    states(index, kept.stateNames); // makes room for them
    args.positionsFrom = args.from;
    for (size_t j = 0; j < kept.stateNames.size(); ++j)
      moveNumbers(args, kept.states + j * kept.statesRows,
                  layer.states.as<float>() + j * places(layer),
                  most(kept.hostCounts));
  }
  layer.unplaced |= !kept.positions && most(kept.hostCounts);
}

kvc_cache_view GpuCache::view(uint32_t index, int32_t *length,
                              kvc_member_table &members) {
  Layer &layer = layers[index];
  if (layer.unplaced)
    throw rt::fail(KVC_BAD_ARGUMENT, "a cache must know its rows' positions to "
                                     "be evicted again");
  if (layer.extra) {
    for (int32_t &count : layer.hostCounts)
      count += int32_t(layer.extra);
    layer.counts = queue.uploaded(layer.hostCounts);
    if (layer.members)
      layer.members.count(queue, layer.extra);
    layer.room -= layer.extra;
    layer.extra = 0;
  }
  int64_t d = config.headDim, heads = config.kvHeads;
  kvc_cache_view view = {};
  view.struct_size = sizeof view;
  view.kind = KVC_RAGGED;
  view.dtype = dtype;
  view.batch = 1;
  view.kv_heads = config.kvHeads;
  view.head_dim = config.headDim;
  view.k = {layer.k.data(), 0, 0, d, 0};
  view.v = {layer.v.data(), 0, 0, d, 0};
  view.counts = {layer.counts.as<int32_t>(), heads, 1};
  view.offsets = {layer.offsets.as<int32_t>(), heads, 1};
  view.lengths = length;
  view.slots = uint32_t(layer.k.bytes() / rowBytes);
  view.positions = {layer.positions.data(), 0, 0, 1, 0};
  view.positions_by_slot = 1;
  if (layer.members) {
    members = layer.members.table();
    view.members = &members;
  }
  return view;
}

kvc_row_states GpuCache::states(uint32_t index,
                                const std::vector<std::string> &names) {
  Layer &layer = layers[index];
  size_t rows = places(layer), bytes = rows * sizeof(float);
  if (layer.stateNames != names) {
    Buffer moved;
    if (!names.empty())
      moved = Buffer(queue, names.size() * bytes);
    if (moved)
      queue.clear(moved.data(), moved.bytes());
    for (size_t j = 0; j < names.size(); ++j)
      for (size_t i = 0; i < layer.stateNames.size(); ++i)
        if (names[j] == layer.stateNames[i] && bytes)
          queue.copy(moved.data(j * bytes), layer.states.data(i * bytes),
                     bytes);
    layer.states = std::move(moved);
    layer.stateNames = names;
  }
  return {layer.states.as<float>(), int64_t(rows), 0, 0, 1, 0, 1};
}

void GpuCache::replace(uint32_t index, const KeptRows &kept) {
  empty(layers[index]);
  append(index, kept, 0);
}

size_t GpuCache::allRows(uint32_t index) const {
  size_t sum = 0;
  for (uint32_t h = 0; h < config.kvHeads; ++h)
    sum += rows(index, h);
  return sum;
}

void GpuCache::take(uint32_t index, GpuActivations &to) {
  Layer &layer = layers[index];
  to.k = std::move(layer.k);
  to.v = std::move(layer.v);
  to.headRows = layer.room;
  empty(layer);
}

CacheArgs GpuCache::args(uint32_t index, const float *rope) const {
  const Layer &layer = layers[index];
  return {.k = layer.k.data(),
          .v = layer.v.data(),
          .offsets = layer.offsets.as<int32_t>(),
          .counts = layer.counts.as<int32_t>(),
          .extra = layer.extra,
          .members = layer.members ? layer.members.args() : MembersArgs{},
          .rope = rope};
}

uint32_t GpuCache::longest(uint32_t index) const {
  const Layer &layer = layers[index];
  const GpuMembers &members = layer.members;
  return most(members ? members.counted() : layer.hostCounts) + layer.extra;
}

uint32_t GpuCache::rows(uint32_t layer, uint32_t head) const {
  return uint32_t(layers[layer].hostCounts[head]) + layers[layer].extra;
}

size_t GpuCache::usedBytes() const {
  size_t bytes = 0;
  for (uint32_t l = 0; l < config.layers; ++l) {
    for (uint32_t h = 0; h < config.kvHeads; ++h)
      bytes += rows(l, h) * rowBytes * 2;
    for (int32_t count : layers[l].members.counted())
      bytes += (size_t(count) + layers[l].extra) * sizeof(rt::Member);
  }
  return bytes;
}
