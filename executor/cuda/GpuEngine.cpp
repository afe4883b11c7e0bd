//===- GpuEngine.cpp - a model on an NVIDIA GPU ---------------------------===//

#include "executor/cuda/GpuEngine.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "executor/cuda/AttentionBoxes.h"
#include "executor/cuda/GpuCache.h"
#include "executor/cuda/GpuCacheCompressor.h"
#include "executor/cuda/GpuChunkedPrompt.h"
#include "executor/cuda/GpuCompressor.h"
#include "executor/cuda/GpuQueries.h"
#include "executor/cuda/GpuWeights.h"
#include "executor/cuda/RopeTable.h"
#include "runtime/kernels/AttentionState.h"

#include <algorithm>
#include <cmath>

using namespace kvc::gpu;
namespace rt = kvc::rt;

namespace {

constexpr uint32_t maxHeadDim = 128;

class GpuEngine : public rt::Engine {
public:
  GpuEngine(const std::string &dir, const rt::Config &config, int device)
      : Engine(config), queue(checked(config, device), config.dtype),
        weights(queue, dir, this->config),
        rope(queue,
             rt::Rope(config.headDim, config.ropeTheta, config.ropeScaling),
             config.headDim) {}

  const char *target() const override { return "cuda"; }
  kvc_dtype dtype() const override { return queue.dtype; }

  std::unique_ptr<rt::Cache> makeCache(kvc_dtype dtype) const override {
    if (dtype != queue.dtype)
      throw rt::fail(KVC_UNSUPPORTED,
                     "on a GPU a cache is of the model's type {}, got {}",
                     rt::dtypeName(queue.dtype), rt::dtypeName(dtype));
    return std::make_unique<GpuCache>(queue, config);
  }
  std::unique_ptr<rt::Compressor>
  makeCompressor(const rt::PolicyOptions &options) const override {
    return std::make_unique<GpuCompressor>(options, queue, config, weights);
  }
  std::unique_ptr<rt::CacheCompressor>
  makeCacheCompressor(const rt::PolicyOptions &options,
                      std::optional<kvc_dtype>) const override {
    return std::make_unique<GpuCacheCompressor>(options, queue, config, weights,
                                                rope);
  }
  std::unique_ptr<rt::RecentQueries>
  makeRecentQueries(uint32_t most) const override {
    return std::make_unique<GpuQueries>(queue, config, most);
  }
  std::unique_ptr<rt::ChunkedPrompt>
  makeChunkedPrompt(const rt::Manifest &manifest, uint32_t tokens,
                    rt::Cache &cache) const override {
    static_cast<GpuCache &>(cache).reserve(tokens);
    return std::make_unique<GpuChunkedPrompt>(queue, config, manifest, tokens);
  }

  std::vector<float> run(const std::vector<uint32_t> &tokens, uint32_t position,
                         const rt::Cache &cache, const LayerHook &hook,
                         LogitsOf rows) const override {
    auto count = uint32_t(tokens.size());
    auto &gpuCache = static_cast<const GpuCache &>(cache);
    rope.reach(position + count);
    Buffer x(queue, size_t(count) * config.hidden * sizeof(float));
    Buffer ids = queue.uploaded(tokens);
    EmbedArgs embed = {ids.as<int32_t>(), weights.outer.embedding.data(),
                       x.as<float>(), config.hidden};
    queue.launch("embed_TYPE", {count, 1, 1}, rowThreads, embed);
    for (uint32_t l = 0; l < config.layers; ++l) {
      const GpuLayer &w = weights.layers[l];
      auto layer =
          std::make_unique<GpuActivations>(project(w, x, count, position));
      Buffer attention = attend(*layer, gpuCache, l);
      hook(l, *layer);
      layer.reset(); // what stays is in the cache
      addProduct(w.o, attention, x.as<float>(), count,
                 config.qHeads * config.headDim);
      attention = {};
      addMlp(w, x, count);
    }
    uint32_t first = rows == LogitsOf::AllTokens ? 0 : count - 1;
    return logits(x.as<float>() + size_t(first) * config.hidden, count - first);
  }

  std::vector<float> outputProjection(uint32_t layer) const override {
    const Buffer &weight = weights.layers[layer].o.weight;
    return queue.downloadedAsFloat(
        weight.data(), weight.bytes() / rt::dtypeBytes(queue.dtype));
  }

private:
  // A run changes what these hold, never what they mean.
  mutable Queue queue;
  const GpuWeights weights;
  mutable RopeTable rope;

  static int checked(const rt::Config &config, int device) {
    if (config.headDim > maxHeadDim || config.headDim % 2)
      throw rt::fail(
          KVC_UNSUPPORTED,
          "the executor's kernels take even head dimensions up to {}, got {}",
          maxHeadDim, config.headDim);
    return device;
  }

  Buffer elements(size_t count) const {
    return Buffer(queue, count * rt::dtypeBytes(queue.dtype));
  }

  /// x [rows, hidden], normalised, in the queue's type.
  Buffer normed(const float *x, const Buffer &weight, uint32_t rows) const {
    Buffer y = elements(size_t(rows) * config.hidden);
    RmsNormArgs args = {x, weight.as<float>(), y.data(), config.hidden,
                        float(config.normEps)};
    queue.launch("rms_norm_TYPE", {rows, 1, 1}, rowThreads, args);
    return y;
  }

  /// x [rows, hidden] += linear(input [rows, in])
  void addProduct(const rt::LinearOf<Buffer> &linear, const Buffer &input,
                  float *x, uint32_t rows, uint32_t in) const {
    queue.multiply(linear.weight, input.data(), x, rows, config.hidden, in,
                   /*wide=*/true, /*add=*/true);
    if (!linear.bias)
      return;
    AddBiasArgs args = {x, linear.bias.as<float>(), config.hidden};
    queue.launch("add_bias", {rows, 1, 1}, rowThreads, args);
  }

  /// Queries, keys and values of a layer's input.
  GpuActivations project(const GpuLayer &w, const Buffer &x, uint32_t tokens,
                         uint32_t position) const {
    uint32_t d = config.headDim, heads = config.qHeads + 2 * config.kvHeads;
    Buffer input = normed(x.as<float>(), w.attentionNorm, tokens);
    Buffer qkv = elements(size_t(tokens) * heads * d);
    queue.multiply(w.qkv.weight, input.data(), qkv.data(), tokens, heads * d,
                   config.hidden);
    GpuActivations layer(queue, config, tokens);
    layer.q = elements(size_t(config.qHeads) * tokens * d);
    for (Buffer *side : {&layer.k, &layer.kRaw, &layer.v})
      *side = elements(size_t(config.kvHeads) * tokens * d);
    HeadsArgs args = {.qkv = qkv.data(),
                      .bias = w.qkv.bias.as<float>(),
                      .queryNorm = w.queryNorm.as<float>(),
                      .keyNorm = w.keyNorm.as<float>(),
                      .rope = rope.at(position),
                      .q = layer.q.data(),
                      .k = layer.k.data(),
                      .kRaw = layer.kRaw.data(),
                      .v = layer.v.data(),
                      .tokens = tokens,
                      .qHeads = config.qHeads,
                      .kvHeads = config.kvHeads,
                      .d = d,
                      .eps = float(config.normEps)};
    queue.launch("heads_TYPE", {ceilDiv(tokens, headTokens), heads, 1},
                 headThreads, args);
    return layer;
  }

  /// Attention to the cache and, causally, to the tokens; [T, Hq, d]. Leaves
  /// the log-sum-exp in `layer`.
  Buffer attend(GpuActivations &layer, const GpuCache &cache,
                uint32_t index) const {
    uint32_t tokens = layer.tokens, d = config.headDim;
    Buffer out = elements(size_t(tokens) * config.qHeads * d);
    layer.lse = Buffer(queue, size_t(config.qHeads) * tokens * sizeof(float));
    auto bytes = uint32_t(rt::dtypeBytes(queue.dtype));
    uint32_t width = attentionWidth(d);
    uint32_t headRows = tokens * (config.qHeads / config.kvHeads);
    CacheArgs cached = cache.args(index, rope.at(0));
    Sharing sharing =
        attentionSharing(bytes, width, headRows, cached.members.rows,
                         queue.multipliesTogether());
    uint32_t blocks = ceilDiv(headRows, attentionRows(bytes, width, sharing));
    AttendArgs args = {.boxes = {},
                       .boxesOfTokens = 0,
                       .q = layer.q.data(),
                       .k = layer.k.data(),
                       .v = layer.v.data(),
                       .cache = cached,
                       .out = out.data(),
                       .lse = layer.lse.as<float>(),
                       .parts = nullptr,
                       .tokens = tokens,
                       .qHeads = config.qHeads,
                       .kvHeads = config.kvHeads,
                       .d = d,
                       .scale = float(1 / std::sqrt(double(d))),
                       .splits = splits(blocks * config.kvHeads,
                                        cache.longest(index) + tokens)};
    if (sharing == Sharing::Keys64)
      giveBoxes(queue, args, cache.longest(index) ? cache.places(index) : 0);
    Buffer parts;
    if (args.splits > 1) {
      parts = Buffer(queue, size_t(args.splits) * config.qHeads * tokens *
                                (d + 2) * sizeof(float));
      args.parts = parts.as<float>();
    }
    std::string type = "_TYPE_" + std::to_string(width);
    queue.launch("attend" + type + attentionKernelEnd(sharing),
                 {blocks, config.kvHeads, args.splits},
                 attentionThreads(bytes, width, sharing), args,
                 attentionLaunchBytes(bytes, width, sharing));
    if (args.splits > 1)
      queue.launch("combine" + type, {tokens * config.qHeads, 1, 1},
                   partsThreads, args);
    return out;
  }

  /// Few blocks leave a GPU idle: then the keys are split, but not into pieces
  /// so short that adding them up costs more.
  uint32_t splits(uint32_t blocks, uint32_t keys) const {
    constexpr uint32_t shortest = 256, blocksPerMultiprocessor = 2;
    uint32_t wanted = queue.multiprocessors() * blocksPerMultiprocessor;
    return std::max(1u, std::min(wanted / blocks, ceilDiv(keys, shortest)));
  }

  /// x += down(silu(gate(norm(x))) * up(norm(x))), some tokens at a time: the
  /// inner vectors are the widest of the model.
  void addMlp(const GpuLayer &w, const Buffer &x, uint32_t tokens) const {
    constexpr uint32_t most = 8192;
    uint32_t inner = config.intermediate;
    for (uint32_t first = 0; first < tokens; first += most) {
      uint32_t rows = std::min(most, tokens - first);
      float *at = x.as<float>() + size_t(first) * config.hidden;
      Buffer input = normed(at, w.mlpNorm, rows);
      Buffer gateUp = elements(size_t(rows) * 2 * inner);
      queue.multiply(w.gateUp.weight, input.data(), gateUp.data(), rows,
                     2 * inner, config.hidden);
      Buffer product = elements(size_t(rows) * inner);
      SwigluArgs args = {gateUp.data(), w.gateUp.bias.as<float>(),
                         product.data(), inner};
      queue.launch("swiglu_TYPE", {rows, 1, 1}, rowThreads, args);
      addProduct(w.down, product, at, rows, inner);
    }
  }

  /// [rows, vocab] of rows of the last layer's output.
  std::vector<float> logits(const float *x, uint32_t rows) const {
    Buffer input = normed(x, weights.outer.norm, rows);
    size_t count = size_t(rows) * config.vocab;
    Buffer result(queue, count * sizeof(float));
    queue.multiply(weights.head(), input.data(), result.data(), rows,
                   config.vocab, config.hidden, /*wide=*/true);
    return queue.downloaded<float>(result.data(), count);
  }
};

} // namespace

std::unique_ptr<rt::Engine> kvc::gpu::makeGpuEngine(const std::string &modelDir,
                                                    int device) {
  return std::make_unique<GpuEngine>(modelDir, rt::Config::read(modelDir),
                                     device);
}
