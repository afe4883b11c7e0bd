//===- HostPolicy.cpp - a policy beside a model on the host ---------------===//

#include "executor/host/HostPolicy.h"

#include "executor/eviction/HeadTable.h"
#include "runtime/base/DType.h"

using namespace kvc::rt;

const std::byte *Elements::of(const std::vector<float> &values) {
  if (type == KVC_F32)
    return reinterpret_cast<const std::byte *>(values.data());
  return narrowed.emplace_back(narrow(values.data(), values.size(), type))
      .data();
}

static kvc_dtype chooseType(const Manifest &manifest, const Config &config,
                            kvc_cache_kind cache) {
  for (const Variant &variant : manifest.variants)
    if (variant.dtype == KVC_F32 && variant.cache == cache &&
        variant.headDim == config.headDim &&
        variant.group * config.kvHeads == config.qHeads)
      return KVC_F32;
  return config.dtype;
}

static kvc_cache_kind chooseCache(const Manifest &manifest,
                                  std::initializer_list<kvc_cache_kind> kinds) {
  for (kvc_cache_kind kind : kinds)
    for (const Variant &variant : manifest.variants)
      if (variant.cache == kind)
        return kind;
  return std::data(kinds)[kinds.size() - 1];
}

HostPolicy::HostPolicy(const PolicyOptions &options, const kvc_target &target,
                       const Transformer &model,
                       std::initializer_list<kvc_cache_kind> caches,
                       std::optional<kvc_dtype> dtype)
    : model(model), evictor(options.policy, target),
      cache(chooseCache(manifest(), caches)),
      type(dtype ? *dtype : chooseType(manifest(), model.config, cache)) {
  bool mine = manifest().reads(Argument::table) || !options.sharesTable;
  evictor.carryStates(true); // for the runs that follow
  evictor.keepPrepared();
  evictor.setTable(readTable(manifest(), mine ? options.table : "",
                             model.config.layers, model.config.qHeads));
}

void HostPolicy::begin(uint32_t length, uint32_t newBudget) {
  tokens = length;
  budget = newBudget;
  layer = 0;
}

void HostPolicy::planFor(uint32_t most) {
  if (most <= planned)
    return;
  planned = most;
  kvc_plan_options plan = {};
  plan.struct_size = sizeof plan;
  plan.head_dim = model.config.headDim;
  plan.q_heads = model.config.qHeads;
  plan.kv_heads = model.config.kvHeads;
  plan.max_batch = 1;
  plan.max_tokens = most;
  plan.dtype = type;
  plan.cache = cache;
  evictor.plan(plan);
  if (manifest().reads(Argument::rope))
    evictor.setAngles(model.rope.angles(0, most));
}

KeptSequence HostPolicy::evict(LayerSequence sequence, Elements &elements) {
  sequence.tokens = tokens;
  sequence.budget = budget;
  if (manifest().reads(Argument::wo)) {
    sequence.wo = elements.of(model.weights.layers[layer].o.weight);
    sequence.hidden = model.config.hidden;
  }
  KeptLayer kept =
      evictor.evict({sequence}, 0, false, layer, model.config.layers);
  nan |= kept.nanScores;
  ++layer;
  return std::move(kept.sequences.front());
}

RaggedCache::States HostPolicy::statesOf(const KeptSequence &kept) const {
  RaggedCache::States states;
  for (size_t j = 0; j < kept.states.size(); ++j)
    states[manifest().states[j]] = kept.states[j];
  return states;
}
