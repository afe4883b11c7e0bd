//===- MetricsReport.h - metrics of a run, as JSON ------------------------===//

#ifndef KVC_EXECUTOR_EVICTION_METRICSREPORT_H
#define KVC_EXECUTOR_EVICTION_METRICSREPORT_H

#include "executor/io/LayerFile.h"
#include "executor/eviction/Metrics.h"

namespace kvc::rt {

/// Layer `index` of a file for `measure`; widened to double.
MetricsLayer metricsLayer(const LayerFile &file, size_t index);

/// Metrics of one sequence, layer by layer.
struct SequenceMetrics {
  std::string input;
  uint32_t tokens, budget;
  size_t fullBytes; // of the whole cache
  std::vector<LayerMetrics> layers;
};

/// docs/metrics.md has the fields.
std::string formatMetrics(const std::string &policy, uint32_t queries,
                          const std::vector<SequenceMetrics> &sequences);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_METRICSREPORT_H
