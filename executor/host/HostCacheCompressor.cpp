//===- HostCacheCompressor.cpp - a policy over caches on the host ---------===//

#include "executor/host/HostCacheCompressor.h"

#include "executor/eviction/HeadTable.h"
#include "executor/host/HostQueries.h"
#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "support/Stopwatch.h"

#include <algorithm>

using namespace kvc::rt;

kvc_dtype kvc::rt::chooseType(const Manifest &manifest, const Config &config,
                              kvc_cache_kind cache) {
  for (const Variant &variant : manifest.variants)
    if (variant.dtype == KVC_F32 && variant.cache == cache &&
        variant.headDim == config.headDim &&
        variant.group * config.kvHeads == config.qHeads)
      return KVC_F32;
  return config.dtype;
}

namespace {

class HostCacheCompressor : public CacheCompressor {
public:
  HostCacheCompressor(const PolicyOptions &options, const kvc_target &target,
                      const Transformer &model, std::optional<kvc_dtype> dtype)
      : model(model), evictor(options.policy, target),
        type(dtype ? *dtype
                   : chooseType(evictor.manifest(), model.config, KVC_RAGGED)) {
    bool mine = manifest().reads(Argument::table) || !options.sharesTable;
    evictor.setTable(readTable(manifest(), mine ? options.table : "",
                               model.config.layers, model.config.qHeads));
    begin(1, 1); // says now if the policy is not compiled for such caches
    checkInputs();
  }

  void begin(uint32_t newLength, uint32_t newBudget) override {
    length = newLength;
    budget = newBudget;
    layer = 0;
    if (length <= planned)
      return;
    // While decoding every run is a little longer than the last.
    constexpr uint32_t ahead = 256;
    planned = length + ahead;
    kvc_plan_options plan = {};
    plan.struct_size = sizeof plan;
    plan.head_dim = model.config.headDim;
    plan.q_heads = model.config.qHeads;
    plan.kv_heads = model.config.kvHeads;
    plan.max_batch = 1;
    plan.max_tokens = planned;
    plan.dtype = type;
    plan.cache = KVC_RAGGED;
    evictor.plan(plan);
  }

  void compress(Cache &cache, RecentQueries *recent,
                KeptSequence *told) override {
    Stopwatch watch;
    const Config &config = model.config;
    RaggedCache &rows = layersOf(cache)[layer];
    auto *queries = static_cast<HostQueries *>(recent);
    if (rows.merged())
      refuseMerged();
    RaggedCache::Contents all = rows.contents();
    if (!rows.placed())
      throw fail(KVC_BAD_ARGUMENT,
                 "a cache must know its rows' positions to be evicted again");
    LayerSequence sequence;
    sequence.tokens = length;
    sequence.budget = budget;
    sequence.lengths = all.counts.data();
    sequence.positions = all.positions.data();
    sequence.k = all.k.data();
    sequence.v = all.v.data();
    std::vector<float> lse;
    std::vector<std::byte> q, wo;
    if (queries && manifest().queries) {
      sequence.queries = std::min(manifest().queries, queries->count(layer));
      auto values = queries->last(layer, sequence.queries);
      q = narrow(values.data(), values.size(), type);
      sequence.q = q.data();
      // As in a prompt: the log-sum-exp is that of fp32 keys.
      if (type == KVC_F32)
        lse = queries->lse(layer, sequence.queries);
      if (!lse.empty())
        sequence.lse = lse.data();
    }
    if (manifest().reads(Argument::wo)) {
      const auto &weight = model.weights.layers[layer].o.weight;
      wo = narrow(weight.data(), weight.size(), type);
      sequence.wo = wo.data();
      sequence.hidden = config.hidden;
    }
    KeptLayer layers =
        evictor.evict({sequence}, 0, false, layer, config.layers);
    KeptSequence &kept = layers.sequences.front();
    size_t before = all.positions.size();
    if (kept.past)
      checkQueries(sequence.queries, length,
                   before == size_t(config.kvHeads) * length);
    nan |= layers.nanScores;
    if (kept.positions.size() < before) {
      if (queries)
        queries->evicted(layer);
      rows.clear();
      rows.append(kept.counts, kept.k.data(), kept.v.data(), {},
                  kept.positions);
    }
    ++layer;
    if (told)
      *told = std::move(kept);
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
  uint32_t length = 0, budget = 0, layer = 0, planned = 0;
  bool nan = false;
  double elapsed = 0;
};

} // namespace

std::unique_ptr<CacheCompressor> kvc::rt::makeHostCacheCompressor(
    const PolicyOptions &options, const kvc_target &target,
    const Transformer &model, std::optional<kvc_dtype> dtype) {
  return std::make_unique<HostCacheCompressor>(options, target, model, dtype);
}
