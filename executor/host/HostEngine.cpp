//===- HostEngine.cpp - a model on the host -------------------------------===//

#include "executor/host/HostEngine.h"

#include "runtime/base/DType.h"
#include "support/Stopwatch.h"
#include "executor/eviction/HeadTable.h"

#include <algorithm>
#include <list>

using namespace kvc::rt;

namespace {

class HostActivations : public Activations {
public:
  explicit HostActivations(LayerActivations layer)
      : Activations(layer.tokens), layer(std::move(layer)) {}
  LayerActivations onHost() const override { return layer; }
  void forgetLse() override { layer.lse.clear(); }

  LayerActivations layer;
};

const LayerActivations &layerOf(const Activations &activations) {
  return static_cast<const HostActivations &>(activations).layer;
}

class HostCache : public Cache {
public:
  HostCache(const Config &config, kvc_dtype dtype)
      : Cache(dtype),
        layers(config.layers,
               RaggedCache(config.kvHeads, config.headDim, dtype)) {}

  std::unique_ptr<Cache> copy() const override {
    return std::make_unique<HostCache>(*this);
  }
  void append(uint32_t layer, const Activations &activations,
              uint32_t position) override {
    const LayerActivations &from = layerOf(activations);
    // A merged cache turns its keys by itself.
    const auto &k = layers[layer].merged() ? from.kRaw : from.k;
    layers[layer].append(k.data(), from.v.data(), from.tokens, position);
  }
  RaggedCache::Contents contents(uint32_t layer) const override {
    return layers[layer].contents();
  }
  void restore(uint32_t layer, const RaggedCache::Contents &c) override {
    layers[layer].append(c.counts, c.k.data(), c.v.data(), c.members);
  }
  uint32_t rows(uint32_t layer, uint32_t head) const override {
    return layers[layer].rows(head);
  }
  size_t usedBytes() const override {
    size_t bytes = 0;
    for (const RaggedCache &layer : layers)
      bytes += layer.usedBytes();
    return bytes;
  }

  std::vector<RaggedCache> layers;
};

std::vector<RaggedCache> &layersOf(Cache &cache) {
  return static_cast<HostCache &>(cache).layers;
}

kvc_dtype chooseType(const Manifest &manifest, const Config &config) {
  for (const Variant &variant : manifest.variants)
    if (variant.dtype == KVC_F32 && variant.headDim == config.headDim &&
        variant.group * config.kvHeads == config.qHeads)
      return KVC_F32;
  return config.dtype;
}

RaggedCache::Members membersOf(const MemberTable &table, uint32_t position) {
  RaggedCache::Members result;
  size_t at = 0;
  for (int32_t count : table.counts) {
    auto &head = result.emplace_back();
    for (int32_t i = 0; i < count; ++i, ++at)
      head.push_back({uint32_t(table.rows[at]),
                      position + uint32_t(table.positions[at]),
                      table.norms[at]});
  }
  return result;
}

class HostCompressor : public Compressor {
public:
  HostCompressor(const PolicyOptions &options, const kvc_target &target,
                 const Transformer &model)
      : model(model), evictor(options.policy, target),
        type(chooseType(evictor.manifest(), model.config)) {
    bool mine = manifest().reads(Argument::table) || !options.sharesTable;
    evictor.setTable(readTable(manifest(), mine ? options.table : "",
                               model.config.layers, model.config.qHeads));
    begin(1, 1); // says now if the policy is not compiled for the model
  }

  void begin(uint32_t tokens, uint32_t newBudget) override {
    budget = newBudget;
    layer = 0;
    if (tokens <= planned)
      return;
    planned = tokens;
    kvc_plan_options plan = {};
    plan.struct_size = sizeof plan;
    plan.head_dim = model.config.headDim;
    plan.q_heads = model.config.qHeads;
    plan.kv_heads = model.config.kvHeads;
    plan.max_batch = 1;
    plan.max_tokens = tokens;
    plan.dtype = type;
    evictor.plan(plan);
  }

  void compress(const Activations &from, uint32_t position, Cache &cache,
                KeptSequence *told) override {
    Stopwatch watch;
    const Config &config = model.config;
    const LayerActivations &activations = layerOf(from);
    // fp32 is handed over as it is.
    std::list<std::vector<std::byte>> narrowed;
    auto elements = [&](const std::vector<float> &values) {
      if (type == KVC_F32)
        return reinterpret_cast<const std::byte *>(values.data());
      return static_cast<const std::byte *>(
          narrowed.emplace_back(narrow(values.data(), values.size(), type))
              .data());
    };
    LayerSequence sequence;
    sequence.tokens = activations.tokens;
    sequence.k = elements(activations.k);
    sequence.v = elements(activations.v);
    sequence.q = elements(activations.q);
    sequence.queries = uint32_t(activations.q.size() /
                                (size_t(config.qHeads) * config.headDim));
    // The attention's log-sum-exp is that of fp32 keys; rounded ones have
    // another, which the policy then computes itself.
    if (type == KVC_F32 && !activations.lse.empty())
      sequence.lse = activations.lse.data();
    sequence.budget = budget;
    if (manifest().reads(Argument::k_raw))
      sequence.kRaw = elements(activations.kRaw);
    if (manifest().reads(Argument::wo)) {
      sequence.wo = elements(model.weights.layers[layer].o.weight);
      sequence.hidden = config.hidden;
    }
    KeptLayer kept = evictor.evict({sequence}, 0, false, layer, config.layers);
    nan |= kept.nanScores;
    KeptSequence &result = kept.sequences.front();
    layersOf(cache)[layer++].append(result.counts, result.k.data(),
                                    result.v.data(),
                                    membersOf(result.members, position));
    if (told)
      *told = std::move(result);
    elapsed += watch.seconds();
  }
  void finish() override {}

  const Manifest &manifest() const override { return evictor.manifest(); }
  kvc_dtype dtype() const override { return type; }
  bool nanScores() const override { return nan; }
  double seconds() const override { return elapsed; }

private:
  const Transformer &model;
  Evictor evictor;
  kvc_dtype type;
  uint32_t budget = 0, layer = 0, planned = 0;
  bool nan = false;
  double elapsed = 0;
};

/// The last `most` rows of every head; `width` numbers each.
void appendTail(std::vector<std::vector<float>> &heads,
                const std::vector<float> &values, uint32_t tokens, size_t width,
                size_t most) {
  most = std::min(most, SIZE_MAX / width);
  heads.resize(values.size() / (tokens * width));
  for (size_t h = 0; h < heads.size(); ++h) {
    auto first = values.begin() + ptrdiff_t(h * tokens * width);
    heads[h].insert(heads[h].end(), first, first + ptrdiff_t(tokens * width));
    if (heads[h].size() > most * width)
      heads[h].erase(heads[h].begin(),
                     heads[h].end() - ptrdiff_t(most * width));
  }
}

std::vector<float> joined(const std::vector<std::vector<float>> &heads) {
  std::vector<float> all;
  for (const std::vector<float> &head : heads)
    all.insert(all.end(), head.begin(), head.end());
  return all;
}

class HostChunkedPrompt : public ChunkedPrompt {
public:
  HostChunkedPrompt(const Transformer &model, const Manifest &manifest,
                    uint32_t tokens)
      : model(model), tokens(tokens), queries(manifest.queries),
        rawKeys(manifest.reads(Argument::k_raw)), tails(model.config.layers) {}

  void add(uint32_t layer, const Activations &activations) override {
    const LayerActivations &from = layerOf(activations);
    uint32_t d = model.config.headDim;
    Tail &tail = tails[layer];
    // "All queries" is more than any prompt has.
    appendTail(tail.q, from.q, from.tokens, d, queries);
    appendTail(tail.lse, from.lse, from.tokens, 1, queries);
    if (rawKeys)
      appendTail(tail.kRaw, from.kRaw, from.tokens, d, SIZE_MAX);
  }

  std::unique_ptr<Activations> take(uint32_t layer, Cache &from) override {
    RaggedCache &cache = layersOf(from)[layer];
    LayerActivations all;
    all.tokens = tokens;
    all.q = joined(tails[layer].q);
    all.lse = joined(tails[layer].lse);
    all.kRaw = joined(tails[layer].kRaw);
    std::vector<float> k, v;
    for (uint32_t h = 0; h < model.config.kvHeads; ++h) {
      auto rows = cache.attended(h, model.rope, k, v);
      size_t numbers = rows.count * model.config.headDim;
      all.k.insert(all.k.end(), rows.k, rows.k + numbers);
      all.v.insert(all.v.end(), rows.v, rows.v + numbers);
    }
    tails[layer] = {};
    cache.clear();
    return std::make_unique<HostActivations>(std::move(all));
  }

private:
  struct Tail {
    std::vector<std::vector<float>> q, lse, kRaw; // [heads][rows * width]
  };
  const Transformer &model;
  const uint32_t tokens, queries;
  const bool rawKeys;
  std::vector<Tail> tails;
};

class HostEngine : public Engine {
public:
  HostEngine(std::unique_ptr<Transformer> transformer,
             const kvc_target &policies)
      : Engine(transformer->config), policies(policies),
        model(std::move(transformer)) {}

  const char *target() const override { return targetName(policies); }
  kvc_dtype dtype() const override { return KVC_F32; }
  std::unique_ptr<Cache> makeCache(kvc_dtype dtype) const override {
    return std::make_unique<HostCache>(config, dtype);
  }
  std::unique_ptr<Compressor>
  makeCompressor(const PolicyOptions &options) const override {
    return std::make_unique<HostCompressor>(options, policies, *model);
  }
  std::unique_ptr<ChunkedPrompt> makeChunkedPrompt(const Manifest &manifest,
                                                   uint32_t tokens,
                                                   Cache &) const override {
    return std::make_unique<HostChunkedPrompt>(*model, manifest, tokens);
  }

  std::vector<float> run(const std::vector<uint32_t> &tokens, uint32_t position,
                         const Cache &cache, const LayerHook &hook,
                         LogitsOf rows) const override {
    auto output = model->run(
        tokens, position, static_cast<const HostCache &>(cache).layers,
        [&](uint32_t layer, LayerActivations &activations) {
          HostActivations wrapped(std::move(activations));
          hook(layer, wrapped);
        });
    if (rows == LogitsOf::AllTokens)
      return model->logits(output.data(), uint32_t(tokens.size()));
    return model->logits(&output[(tokens.size() - 1) * config.hidden]);
  }
  std::vector<float> outputProjection(uint32_t layer) const override {
    return model->weights.layers[layer].o.weight;
  }

private:
  const kvc_target policies;
  std::unique_ptr<Transformer> model;
};

} // namespace

std::unique_ptr<Engine> kvc::rt::makeHostEngine(const std::string &modelDir,
                                                const kvc_target &target) {
  return std::make_unique<HostEngine>(std::make_unique<Transformer>(modelDir),
                                      target);
}
