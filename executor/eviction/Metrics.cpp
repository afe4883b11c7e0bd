//===- Metrics.cpp - what an eviction costs the layer's output ------------===//

#include "executor/eviction/Metrics.h"

#include "runtime/base/DType.h"
#include "executor/model/Blas.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kvc::rt;

namespace {

class Meter {
public:
  Meter(const MetricsLayer &layer, const KeptSequence &kept, kvc_dtype dtype)
      : layer(layer), kept(kept), d(layer.headDim),
        group(layer.qHeads / layer.kvHeads),
        merges(!kept.members.counts.empty()) {
    size_t rows = kept.indices.size();
    if (merges) {
      keys = toDouble(kept.k.data(), rows * d, dtype);
      values = toDouble(kept.v.data(), rows * d, dtype);
    }
    size_t row = 0, member = 0;
    for (uint32_t g = 0; g < layer.kvHeads; ++g) {
      firstRow.push_back(row);
      firstMember.push_back(member);
      row += kept.counts[g];
      member += merges ? kept.members.counts[g] : 0;
    }
    if (!layer.wo.empty())
      measureNorms();
  }

  LayerMetrics run(uint32_t queries) {
    LayerMetrics result;
    result.budgets = kept.counts;
    result.kept.resize(layer.tokens);
    for (int32_t t : kept.indices)
      result.kept[t] = true;
    if (layer.q.empty())
      return result;
    queries = std::clamp(queries, 1u, layer.queries);
    bool outputs = !layer.wo.empty() && (!merges || layer.ropeTheta);
    double total = 0, bound = 0;
    std::vector<HeadMetrics> sums(layer.qHeads, HeadMetrics{0, 0.0, 0.0, 0.0});
    for (uint32_t i = layer.queries - queries; i < layer.queries; ++i) {
      std::vector<double> change(layer.hidden); // of the layer's output
      for (uint32_t h = 0; h < layer.qHeads; ++h) {
        std::vector<double> weights = attention(h, i);
        sums[h].mass += keptMass(h / group, weights);
        if (!outputs)
          continue;
        *sums[h].perturbation += project(h, difference(h, i, weights), change);
        auto [ada, critical] = bounds(h, weights);
        *sums[h].adaBound += ada;
        *sums[h].criticalBound += critical;
        bound += ada;
      }
      for (double x : change)
        total += std::abs(x);
    }
    for (HeadMetrics &sum : sums) {
      sum.mass /= queries;
      for (auto *value : {&sum.perturbation, &sum.adaBound, &sum.criticalBound})
        *value = outputs && (!merges || value == &sum.perturbation)
                     ? std::optional(**value / queries)
                     : std::nullopt;
    }
    result.heads = std::move(sums);
    if (outputs)
      result.perturbation = total / queries;
    if (outputs && !merges)
      result.adaBound = bound / queries;
    return result;
  }

private:
  const MetricsLayer &layer;
  const KeptSequence &kept;
  const uint32_t d, group;
  const bool merges;
  std::vector<double> keys, values; // merged rows
  std::vector<size_t> firstRow, firstMember;
  std::vector<double> norms; // [Hq, T], ||x_t||_1
  double largestNorm = 0;

  const double *queryOf(uint32_t h, uint32_t i) const {
    return &layer.q[(size_t(h) * layer.queries + i) * d];
  }
  const double *rowOf(const std::vector<double> &rows, uint32_t g,
                      uint32_t t) const {
    return &rows[(size_t(g) * layer.tokens + t) * d];
  }
  double logit(const double *q, const double *k) const {
    double dot = 0;
    for (uint32_t e = 0; e < d; ++e)
      dot += q[e] * k[e];
    return dot * layer.scale;
  }

  /// Softmax in place.
  static void normalise(std::vector<double> &logits) {
    if (logits.empty())
      return;
    double most = *std::max_element(logits.begin(), logits.end()), sum = 0;
    for (double &x : logits)
      sum += x = std::exp(x - most);
    for (double &x : logits)
      x /= sum;
  }

  /// Weights of all tokens that query i sees.
  std::vector<double> attention(uint32_t h, uint32_t i) const {
    std::vector<double> weights;
    for (uint32_t t = 0; t <= layer.tokens - layer.queries + i; ++t)
      weights.push_back(logit(queryOf(h, i), rowOf(layer.k, h / group, t)));
    normalise(weights);
    return weights;
  }

  /// Calls `body` with each kept token of a KV head that the query sees.
  template <typename Body>
  void forKept(uint32_t g, size_t seen, Body body) const {
    for (int32_t row = 0; row < kept.counts[g]; ++row)
      if (size_t t = kept.indices[firstRow[g] + row]; t < seen)
        body(t);
  }

  double keptMass(uint32_t g, const std::vector<double> &weights) const {
    double sum = 0;
    forKept(g, weights.size(), [&](size_t t) { sum += weights[t]; });
    return sum;
  }

  /// Change of the head's weighted mean of values.
  std::vector<double> difference(uint32_t h, uint32_t i,
                                 const std::vector<double> &weights) const {
    uint32_t g = h / group;
    std::vector<double> result(d);
    auto add = [&](double weight, const double *value) {
      for (uint32_t e = 0; e < d; ++e)
        result[e] += weight * value[e];
    };
    for (size_t t = 0; t < weights.size(); ++t)
      add(weights[t], rowOf(layer.v, g, uint32_t(t)));
    if (!merges) {
      double mass = keptMass(g, weights);
      forKept(g, weights.size(), [&](size_t t) {
        add(mass > 0 ? -weights[t] / mass : 0, rowOf(layer.v, g, uint32_t(t)));
      });
      return result;
    }
    std::vector<double> logits;
    std::vector<const double *> seen;
    for (int32_t m = 0; m < kept.members.counts[g]; ++m) {
      size_t at = firstMember[g] + m;
      auto position = uint32_t(kept.members.positions[at]);
      if (position >= weights.size())
        continue;
      size_t row = (firstRow[g] + kept.members.rows[at]) * d;
      std::vector<double> key(&keys[row], &keys[row] + d);
      rotate(key, position, kept.members.norms[at]);
      logits.push_back(logit(queryOf(h, i), key.data()));
      seen.push_back(&values[row]);
    }
    normalise(logits);
    for (size_t m = 0; m < logits.size(); ++m)
      add(-logits[m], seen[m]);
    return result;
  }

  /// norm * RoPE(key, position); halves rotated, as Hugging Face does.
  void rotate(std::vector<double> &key, uint32_t position, double norm) const {
    uint32_t half = d / 2;
    for (uint32_t e = 0; e < half; ++e) {
      double angle = position * std::pow(*layer.ropeTheta, -2.0 * e / d);
      double a = key[e] * norm, b = key[e + half] * norm;
      key[e] = a * std::cos(angle) - b * std::sin(angle);
      key[e + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }

  /// ||vector . Wo_h||_1; adds the vector's projection to `sum`.
  double project(uint32_t h, const std::vector<double> &vector,
                 std::vector<double> &sum) const {
    double result = 0;
    for (uint32_t n = 0; n < layer.hidden; ++n) {
      const double *w = &layer.wo[(size_t(n) * layer.qHeads + h) * d];
      double x = 0;
      for (uint32_t e = 0; e < d; ++e)
        x += vector[e] * w[e];
      result += std::abs(x);
      sum[n] += x;
    }
    return result;
  }

  void measureNorms() {
    claimBlasMemory();
    uint32_t tokens = layer.tokens, hidden = layer.hidden;
    norms.resize(size_t(layer.qHeads) * tokens);
    constexpr uint32_t block = 256;
    std::vector<double> products(size_t(block) * hidden);
    for (uint32_t h = 0; h < layer.qHeads; ++h)
      for (uint32_t first = 0; first < tokens; first += block) {
        uint32_t rows = std::min(block, tokens - first);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, int(rows),
                    int(hidden), int(d), 1.0, rowOf(layer.v, h / group, first),
                    int(d), &layer.wo[size_t(h) * d], int(layer.qHeads * d),
                    0.0, products.data(), int(hidden));
        for (uint32_t r = 0; r < rows; ++r) {
          double norm =
              cblas_dasum(int(hidden), &products[size_t(r) * hidden], 1);
          norms[size_t(h) * tokens + first + r] = norm;
          largestNorm = std::max(largestNorm, norm);
        }
      }
  }

  /// Of the mass that is lost, and of the projected values that move.
  std::pair<double, double> bounds(uint32_t h,
                                   const std::vector<double> &weights) const {
    const double *norm = &norms[size_t(h) * layer.tokens];
    double mass = keptMass(h / group, weights), all = 0, stays = 0;
    for (size_t t = 0; t < weights.size(); ++t)
      all += weights[t] * norm[t];
    forKept(h / group, weights.size(),
            [&](size_t t) { stays += weights[t] * norm[t]; });
    double critical = mass > 0 ? all - (2 - 1 / mass) * stays : all;
    return {2 * largestNorm * (1 - mass), critical};
  }
};

} // namespace

LayerMetrics kvc::rt::measure(const MetricsLayer &layer,
                              const KeptSequence &kept, kvc_dtype dtype,
                              uint32_t queries) {
  LayerMetrics result = Meter(layer, kept, dtype).run(queries);
  result.cacheBytes = kept.k.size() + kept.v.size() +
                      kept.members.rows.size() * 3 * sizeof(int32_t);
  return result;
}
