//===- GpuQueries.cpp - the last queries of a sequence, on a GPU ----------===//

#include "executor/cuda/GpuQueries.h"

#include "runtime/base/DType.h"

#include <algorithm>

using namespace kvc::gpu;
namespace rt = kvc::rt;

size_t GpuQueries::rowBytes() const {
  return config.headDim * rt::dtypeBytes(queue.dtype);
}

void GpuQueries::append(Layer &layer, const Buffer &q, const Buffer &lse,
                        uint32_t tokens) {
  uint32_t more = std::min(tokens, most);
  // In front of the first token there are rows of zeros for who reads more.
  if (!layer.q && most != KVC_ALL_QUERIES)
    layer.stored = most;
  uint32_t old = std::min(layer.stored, most - more);
  layer.first += layer.stored - old;
  // Each side's rows of all heads, from one place to another.
  auto move = [&](const Buffer &to, uint32_t toRoom, uint32_t at,
                  const Buffer &from, uint32_t fromRoom, uint32_t first,
                  uint32_t rows, size_t width) {
    if (rows && from)
      queue.copyRows(to.data(at * width), toRoom * width,
                     from.data(first * width), fromRoom * width, rows * width,
                     config.qHeads);
  };
  auto sides = {std::pair{&Layer::q, rowBytes()}, {&Layer::lse, sizeof(float)}};
  if (!layer.q || layer.first + old + more > layer.room) {
    // Room for some steps more, so that not each of them moves all.
    uint32_t room = old + more + std::max(64u, old);
    for (auto [side, width] : sides) {
      Buffer moved(queue, size_t(config.qHeads) * room * width);
      queue.clear(moved.data(), moved.bytes());
      move(moved, room, 0, layer.*side, layer.room, layer.first, old, width);
      layer.*side = std::move(moved);
    }
    layer.first = 0;
    layer.room = room;
  }
  for (auto [side, width] : sides)
    move(layer.*side, layer.room, layer.first + old,
         side == &Layer::q ? q : lse, tokens, tokens - more, more, width);
  layer.stored = old + more;
  layer.count =
      uint32_t(std::min<uint64_t>(most, layer.count + uint64_t(more)));
}

void GpuQueries::add(uint32_t layer, const rt::Activations &activations) {
  auto &from = static_cast<const GpuActivations &>(activations);
  append(layers[layer], from.q, from.lse, from.queries);
  layers[layer].fresh += from.queries;
}

std::unique_ptr<rt::RecentQueries> GpuQueries::copy() const {
  auto result = std::make_unique<GpuQueries>(queue, config, most);
  for (uint32_t l = 0; l < config.layers; ++l) {
    const Layer &from = layers[l];
    Layer &to = result->layers[l];
    for (Buffer Layer::*side : {&Layer::q, &Layer::lse})
      if (from.*side) {
        to.*side = Buffer(queue, (from.*side).bytes());
        queue.copy((to.*side).data(), (from.*side).data(),
                   (from.*side).bytes());
      }
    to.first = from.first;
    to.count = from.count;
    to.stored = from.stored;
    to.room = from.room;
    to.fresh = from.fresh;
  }
  return result;
}

std::vector<float> GpuQueries::last(uint32_t layer, uint32_t rows) const {
  const Layer &from = layers[layer];
  if (!rows)
    return {};
  size_t bytes = rows * rowBytes();
  Buffer dense(queue, config.qHeads * bytes);
  queue.copyRows(dense.data(), bytes, rowsOf(layer, rows).data,
                 from.room * rowBytes(), bytes, config.qHeads);
  return queue.downloadedAsFloat(dense.data(),
                                 dense.bytes() / rt::dtypeBytes(queue.dtype));
}

std::vector<float> GpuQueries::lse(uint32_t layer, uint32_t rows) const {
  const float *at = lseOf(layer, rows);
  if (!at || !rows)
    return {};
  size_t bytes = rows * sizeof(float);
  Buffer dense(queue, config.qHeads * bytes);
  queue.copyRows(dense.data(), bytes, at, room(layer) * sizeof(float), bytes,
                 config.qHeads);
  return queue.downloaded<float>(dense.data(), size_t(config.qHeads) * rows);
}

void GpuQueries::restore(uint32_t layer, const std::vector<float> &q) {
  if (!q.empty())
    append(layers[layer],
           queue.uploaded(rt::narrow(q.data(), q.size(), queue.dtype)), {},
           uint32_t(q.size() / (size_t(config.qHeads) * config.headDim)));
}

kvc_rows GpuQueries::rowsOf(uint32_t layer, uint32_t rows) const {
  const Layer &from = layers[layer];
  int64_t d = config.headDim, head = from.room * d;
  return {from.q.data((from.first + from.stored - rows) * rowBytes()),
          config.qHeads * head, head, d};
}

const float *GpuQueries::lseOf(uint32_t layer, uint32_t rows) const {
  const Layer &from = layers[layer];
  return from.fresh < rows
             ? nullptr
             : from.lse.as<float>() + from.first + from.stored - rows;
}
