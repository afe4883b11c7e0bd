//===- Metrics.h - what an eviction costs the layer's output --------------===//
//
// Measured on the CPU in double from the layer's tensors and the policy's
// result, for the last queries of the prompt, as if each were the next token's.
// With A the softmax over all tokens, K the kept ones, x_t = V[t] Wo_h and s =
// sum of A over K:
//
//   mass          s
//   perturbation  || sum_t A_t x_t - sum_K A_t x_t / s ||_1
//   ada bound     2 C (1 - s), C the largest ||x_t||_1 of the layer (Feng et
//   al.
//                 2024: the sum over heads bounds the layer's perturbation)
//   critical bound  sum_t A_t ||x_t|| - (2 - 1 / s) sum_K A_t ||x_t|| (Feng et
//   al.
//                 2025: bounds the head's perturbation)
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_EVICTION_METRICS_H
#define KVC_EXECUTOR_EVICTION_METRICS_H

#include "executor/eviction/Evictor.h"

#include <optional>

namespace kvc::rt {

/// One layer of one sequence, row-major.
struct MetricsLayer {
  uint32_t qHeads, kvHeads, headDim, tokens;
  uint32_t queries = 0, hidden = 0;
  double scale = 0;         // of the logits
  std::vector<double> q;    // [Hq, queries, d]; empty: no attention metrics
  std::vector<double> k, v; // [Hkv, T, d]
  std::vector<double> wo;   // [hidden, Hq * d]; empty: mass only
  std::optional<double> ropeTheta; // for rows of merged keys
};

/// One query head; means over the queries.
struct HeadMetrics {
  double mass;
  /// Without an output projection, or where rows are merged and rotations are
  /// not known, there are none. The bounds are of evictions, not of merges.
  std::optional<double> perturbation, adaBound, criticalBound;
};

struct LayerMetrics {
  std::vector<int32_t> budgets;   // [Hkv], rows kept
  std::vector<bool> kept;         // [T], by some KV head
  std::vector<HeadMetrics> heads; // [Hq]; empty without queries
  /// Of all heads together: L1 norm of the change of the layer's output, and
  /// what bounds it.
  std::optional<double> perturbation, adaBound;
  size_t cacheBytes;
};

/// Uses the last `queries` queries, at least 1. `dtype` is that of the kept
/// rows.
LayerMetrics measure(const MetricsLayer &layer, const KeptSequence &kept,
                     kvc_dtype dtype, uint32_t queries);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_METRICS_H
