//===- Compressor.cpp - a policy inside a model's prefill -----------------===//

#include "runtime/executor/Compressor.h"

#include "runtime/executor/HeadTable.h"

#include <list>

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
  bool mine = manifest().reads("table") || !options.sharesTable;
  giveTable(evictor, mine ? options.table : "", model.config.layers,
            model.config.qHeads);
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
  sequence.queries =
      uint32_t(activations.q.size() / (size_t(config.qHeads) * config.headDim));
  // The attention's log-sum-exp is that of fp32 keys; rounded ones have
  // another, which the policy then computes itself.
  if (type == KVC_F32 && !activations.lse.empty())
    sequence.lse = activations.lse.data();
  sequence.budget = budget;
  if (manifest().reads("k_raw"))
    sequence.kRaw = elements(activations.kRaw);
  if (manifest().reads("wo")) {
    sequence.wo = elements(model.weights.layers[layer].o.weight);
    sequence.hidden = config.hidden;
  }
  KeptLayer kept = evictor.evict({sequence}, 0, false, layer++, config.layers);
  nan |= kept.nanScores;
  KeptSequence &result = kept.sequences.front();
  cache.append(result.counts, result.k.data(), result.v.data(),
               membersOf(result.members, position));
  return std::move(result);
}
