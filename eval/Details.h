//===- Details.h - where kept tokens lie, what eviction changes -----------===//

#ifndef KVC_EVAL_DETAILS_H
#define KVC_EVAL_DETAILS_H

#include "executor/engine/Engine.h"
#include "executor/eviction/Metrics.h"

#include <nlohmann/json.hpp>

namespace kvc::rt {

/// Parts of the prompt that retention is told for.
constexpr uint32_t detailBins = 64;

/// A layer as the prompt's last query sees it.
MetricsLayer lastQuery(const Engine &engine, uint32_t index,
                       const LayerActivations &layer);

/// One layer of one prompt: {"retention": [Hkv][64] share of the tokens kept,
/// in parts of the prompt; "budgets": [Hkv]; "coverage": share of the tokens
/// that some head kept; "perturbation": L1 change of the layer's output for the
/// last query, or null}. `dtype` is that of the kept rows.
nlohmann::json describeLayer(const MetricsLayer &metrics,
                             const KeptSequence &kept, kvc_dtype dtype);

} // namespace kvc::rt

#endif // KVC_EVAL_DETAILS_H
