//===- GpuChunkedPrompt.cpp - a prompt read in chunks, on a GPU -----------===//

#include "executor/cuda/GpuChunkedPrompt.h"

#include "runtime/base/DType.h"

#include <algorithm>

using namespace kvc::gpu;
namespace rt = kvc::rt;

GpuChunkedPrompt::GpuChunkedPrompt(Queue &queue, const rt::Config &config,
                                   const rt::Manifest &manifest,
                                   uint32_t tokens)
    : queue(queue), config(config), tokens(tokens),
      queries(std::min(manifest.queries, tokens)),
      rawKeys(manifest.reads(rt::Argument::k_raw)), layers(config.layers) {}

void GpuChunkedPrompt::add(uint32_t index, const rt::Activations &activations) {
  auto &from = static_cast<const GpuActivations &>(activations);
  Layer &layer = layers[index];
  size_t row = config.headDim * rt::dtypeBytes(queue.dtype);
  // The chunk's tokens from `first` on become rows of the last `last` tokens.
  auto keep = [&](Buffer &to, const Buffer &rows, size_t heads, size_t width,
                  uint32_t last) {
    if (!to)
      to = Buffer(queue, heads * last * width);
    uint32_t begin = tokens - last, first = std::max(begin, layer.seen);
    uint32_t end = layer.seen + from.tokens;
    if (first < end)
      queue.copyRows(to.data((first - begin) * width), last * width,
                     rows.data((first - layer.seen) * width),
                     from.tokens * width, (end - first) * width, heads);
  };
  keep(layer.q, from.q, config.qHeads, row, queries);
  keep(layer.lse, from.lse, config.qHeads, sizeof(float), queries);
  if (rawKeys)
    keep(layer.kRaw, from.kRaw, config.kvHeads, row, tokens);
  layer.seen += from.tokens;
}

std::unique_ptr<rt::Activations> GpuChunkedPrompt::take(uint32_t index,
                                                        rt::Cache &cache) {
  auto whole = std::make_unique<GpuActivations>(queue, config, tokens);
  Layer &layer = layers[index];
  whole->q = std::move(layer.q);
  whole->lse = std::move(layer.lse);
  whole->kRaw = std::move(layer.kRaw);
  whole->queries = queries;
  static_cast<GpuCache &>(cache).take(index, *whole);
  return whole;
}
