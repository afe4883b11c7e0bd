//===- MetricsReport.cpp - metrics of a run, as JSON ----------------------===//

#include "executor/eviction/MetricsReport.h"

#include "runtime/base/DType.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace kvc::rt;
using nlohmann::json;

MetricsLayer kvc::rt::metricsLayer(const LayerFile &file, size_t index) {
  const LayerTensors &tensors = file.layers[index];
  auto widen = [&](const TensorView *tensor) {
    return tensor ? toDouble(tensor->data, tensor->elements(), file.dtype)
                  : std::vector<double>();
  };
  MetricsLayer layer;
  layer.kvHeads = file.kvHeads;
  layer.qHeads = file.qHeads ? file.qHeads : file.kvHeads;
  layer.headDim = file.headDim;
  layer.tokens = file.tokens;
  layer.queries = file.queries;
  layer.hidden = tensors.wo ? file.hidden : 0;
  layer.scale =
      file.scale != 0 ? file.scale : 1 / std::sqrt(double(file.headDim));
  layer.q = widen(tensors.q);
  layer.k = widen(tensors.k);
  layer.v = widen(tensors.v);
  layer.wo = widen(tensors.wo);
  layer.ropeTheta = file.ropeTheta;
  return layer;
}

static json orNull(const std::optional<double> &value) {
  return value ? json(*value) : json();
}

static json describe(const LayerMetrics &layer) {
  json heads = json::array();
  for (const HeadMetrics &head : layer.heads)
    heads.push_back({{"kept_mass", head.mass},
                     {"perturbation", orNull(head.perturbation)},
                     {"ada_bound", orNull(head.adaBound)},
                     {"critical_bound", orNull(head.criticalBound)}});
  return {
      {"budgets", layer.budgets},
      {"unique_tokens", std::count(layer.kept.begin(), layer.kept.end(), true)},
      {"perturbation", orNull(layer.perturbation)},
      {"ada_bound", orNull(layer.adaBound)},
      {"cache_bytes", layer.cacheBytes},
      {"heads", std::move(heads)}};
}

std::string
kvc::rt::formatMetrics(const std::string &policy, uint32_t queries,
                       const std::vector<SequenceMetrics> &sequences) {
  json list = json::array();
  for (const SequenceMetrics &sequence : sequences) {
    json layers = json::array();
    std::vector<bool> kept(sequence.tokens);
    size_t bytes = 0;
    for (const LayerMetrics &layer : sequence.layers) {
      layers.push_back(describe(layer));
      bytes += layer.cacheBytes;
      for (size_t t = 0; t < kept.size(); ++t)
        kept[t] = kept[t] || layer.kept[t];
    }
    auto unique = std::count(kept.begin(), kept.end(), true);
    list.push_back({{"input", sequence.input},
                    {"tokens", sequence.tokens},
                    {"budget", sequence.budget},
                    {"unique_tokens", unique},
                    {"coverage", double(unique) / double(sequence.tokens)},
                    {"cache_bytes", bytes},
                    {"cache_bytes_full", sequence.fullBytes},
                    {"layers", std::move(layers)}});
  }
  return json{{"policy", policy}, {"queries", queries}, {"sequences", list}}
             // A name in the file system need not be UTF-8.
             .dump(1, ' ', false, json::error_handler_t::replace) +
         "\n";
}
