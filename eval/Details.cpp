//===- Details.cpp - where kept tokens lie, what eviction changes ---------===//

#include "eval/Details.h"

#include <cmath>

using namespace kvc::rt;
using nlohmann::json;

static std::vector<double> inDouble(const std::vector<float> &values) {
  return {values.begin(), values.end()};
}

MetricsLayer kvc::rt::lastQuery(const Engine &engine, uint32_t index,
                                const LayerActivations &layer) {
  const Config &config = engine.config;
  uint32_t tokens = layer.tokens, d = config.headDim;
  MetricsLayer metrics;
  metrics.qHeads = config.qHeads;
  metrics.kvHeads = config.kvHeads;
  metrics.headDim = d;
  metrics.tokens = tokens;
  metrics.queries = 1;
  metrics.hidden = config.hidden;
  metrics.scale = 1 / std::sqrt(double(d));
  for (uint32_t h = 0; h < config.qHeads; ++h) {
    const float *last = &layer.q[(size_t(h + 1) * tokens - 1) * d];
    metrics.q.insert(metrics.q.end(), last, last + d);
  }
  metrics.k = inDouble(layer.k);
  metrics.v = inDouble(layer.v);
  metrics.wo = inDouble(engine.outputProjection(index));
  if (config.ropeScaling.kind == RopeScaling::Kind::None)
    metrics.ropeTheta = config.ropeTheta;
  return metrics;
}

json kvc::rt::describeLayer(const MetricsLayer &metrics,
                            const KeptSequence &kept, kvc_dtype dtype) {
  uint32_t tokens = metrics.tokens;
  json retention = json::array();
  std::vector<double> sizes(detailBins);
  auto binOf = [&](uint32_t t) { return uint64_t(t) * detailBins / tokens; };
  for (uint32_t t = 0; t < tokens; ++t)
    ++sizes[binOf(t)];
  size_t at = 0;
  for (int32_t count : kept.counts) {
    std::vector<double> bins(detailBins);
    for (int32_t i = 0; i < count; ++i)
      ++bins[binOf(uint32_t(kept.indices[at++]))];
    for (uint32_t b = 0; b < detailBins; ++b)
      bins[b] = sizes[b] ? std::round(bins[b] / sizes[b] * 1e4) / 1e4 : 0;
    retention.push_back(bins);
  }

  LayerMetrics measured = measure(metrics, kept, dtype, 1);
  double seen = 0;
  for (bool some : measured.kept)
    seen += some;
  return {{"retention", retention},
          {"budgets", kept.counts},
          {"coverage", seen / tokens},
          {"perturbation",
           measured.perturbation ? json(*measured.perturbation) : json()}};
}
