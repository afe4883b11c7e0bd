//===- HostEngine.cpp - a model on the host -------------------------------===//

#include "executor/host/HostEngine.h"

#include "executor/host/HostCacheCompressor.h"
#include "executor/host/HostPolicy.h"
#include "executor/host/HostQueries.h"
#include "runtime/base/DType.h"
#include "support/Stopwatch.h"

#include <algorithm>

using namespace kvc::rt;

namespace {

class HostCompressor : public Compressor {
public:
  HostCompressor(const PolicyOptions &options, const kvc_target &target,
                 const Transformer &model)
      : policy(options, target, model, {KVC_DENSE}) {
    begin(1, 1); // says now if the policy is not compiled for the model
  }

  void begin(uint32_t tokens, uint32_t budget) override {
    policy.begin(tokens, budget);
    policy.planFor(tokens);
  }

  void compress(const Activations &from, uint32_t position, Cache &cache,
                KeptSequence *told) override {
    Stopwatch watch;
    const Config &config = policy.model.config;
    const LayerActivations &activations = layerOf(from);
    Elements elements(policy.type);
    LayerSequence sequence;
    sequence.k = elements.of(activations.k);
    sequence.v = elements.of(activations.v);
    sequence.q = elements.of(activations.q);
    sequence.queries = uint32_t(activations.q.size() /
                                (size_t(config.qHeads) * config.headDim));
    // The attention's log-sum-exp is that of fp32 keys; rounded ones have
    // another, which the policy then computes itself.
    if (policy.type == KVC_F32 && !activations.lse.empty())
      sequence.lse = activations.lse.data();
    if (manifest().reads(Argument::k_raw))
      sequence.kRaw = elements.of(activations.kRaw);
    RaggedCache &rows = layersOf(cache)[policy.layer];
    KeptSequence kept = policy.evict(sequence, elements);
    std::vector<int32_t> positions = kept.indices;
    for (int32_t &index : positions)
      index += int32_t(position);
    rows.append(kept.counts, kept.k.data(), kept.v.data(),
                membersOf(kept.members, position), positions,
                policy.statesOf(kept));
    if (told)
      *told = std::move(kept);
    policy.elapsed += watch.seconds();
  }
  void finish() override {}

  const Manifest &manifest() const override { return policy.manifest(); }
  kvc_dtype dtype() const override { return policy.type; }
  bool nanScores() const override { return policy.nan; }
  double seconds() const override { return policy.elapsed; }

private:
  HostPolicy policy;
};

class HostChunkedPrompt : public ChunkedPrompt {
public:
  HostChunkedPrompt(const Transformer &model, const Manifest &manifest,
                    uint32_t tokens)
      : model(model), tokens(tokens), queries(manifest.queries),
        rawKeys(manifest.reads(Argument::k_raw)), tails(model.config.layers) {}

  void add(uint32_t layer, const Activations &activations) override {
    const LayerActivations &from = layerOf(activations);
    uint32_t d = model.config.headDim;
    Tails &tail = tails[layer];
    tail.q.append(from.q, from.tokens, d, queries);
    tail.lse.append(from.lse, from.tokens, 1, queries);
    if (rawKeys)
      tail.kRaw.append(from.kRaw, from.tokens, d, KVC_ALL_QUERIES);
  }

  std::unique_ptr<Activations> take(uint32_t layer, Cache &from) override {
    RaggedCache &cache = layersOf(from)[layer];
    LayerActivations all;
    all.tokens = tokens;
    all.q = tails[layer].q.joined();
    all.lse = tails[layer].lse.joined();
    all.kRaw = tails[layer].kRaw.joined();
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
  struct Tails {
    Tail q, lse, kRaw;
  };
  const Transformer &model;
  const uint32_t tokens, queries;
  const bool rawKeys;
  std::vector<Tails> tails;
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
  std::unique_ptr<CacheCompressor>
  makeCacheCompressor(const PolicyOptions &options,
                      std::optional<kvc_dtype> dtype) const override {
    return makeHostCacheCompressor(options, policies, *model, dtype);
  }
  std::unique_ptr<RecentQueries>
  makeRecentQueries(uint32_t most) const override {
    return std::make_unique<HostQueries>(config, most);
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
