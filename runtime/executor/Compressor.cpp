//===- Compressor.cpp - a policy inside a model's prefill -----------------===//

#include "runtime/executor/Compressor.h"

#include "runtime/executor/HeadTable.h"

using namespace kvc::rt;

namespace {

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

} // namespace

Compressor::Compressor(const PolicyOptions &options, const Transformer &model)
    : model(model), where(chooseTarget(options.target)),
      evictor(options.policy, where),
      type(chooseType(evictor.manifest(), model.config)) {
  giveTable(evictor, options.table, model.config.layers, model.config.qHeads);
  begin(1, 1); // says now if the policy is not compiled for the model
}

void Compressor::begin(uint32_t tokens, uint32_t newBudget) {
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

KeptSequence Compressor::compress(const LayerActivations &activations,
                                  uint32_t position, RaggedCache &cache) {
  const Config &config = model.config;
  auto elements = [&](const std::vector<float> &values) {
    return narrow(values.data(), values.size(), type);
  };
  auto k = elements(activations.k), v = elements(activations.v),
       q = elements(activations.q);
  LayerSequence sequence;
  sequence.tokens = activations.tokens;
  sequence.k = k.data();
  sequence.v = v.data();
  sequence.q = q.data();
  sequence.queries =
      uint32_t(activations.q.size() / (size_t(config.qHeads) * config.headDim));
  // The attention's log-sum-exp is that of fp32 keys; rounded ones have
  // another, which the policy then computes itself.
  if (type == KVC_F32 && !activations.lse.empty())
    sequence.lse = activations.lse.data();
  sequence.budget = budget;
  std::vector<std::byte> kRaw, wo;
  if (manifest().reads("k_raw")) {
    kRaw = elements(activations.kRaw);
    sequence.kRaw = kRaw.data();
  }
  if (manifest().reads("wo")) {
    wo = elements(model.weights.layers[layer].o.weight);
    sequence.wo = wo.data();
    sequence.hidden = config.hidden;
  }
  KeptLayer kept = evictor.evict({sequence}, 0, false, layer++, config.layers);
  nan |= kept.nanScores;
  KeptSequence &result = kept.sequences.front();
  cache.append(result.counts, result.k.data(), result.v.data(),
               membersOf(result.members, position));
  return std::move(result);
}
