//===- Tolerance.cpp - a fixed margin around the reference's scores -------===//

#include "test/matrix/Tolerance.h"

#include <algorithm>
#include <cmath>

using namespace kvc;
using namespace kvc::test;

/// Formulas that subtract lose digits: errors are measured against a part of
/// the row's largest score where a score itself is smaller.
static double floorOf(const std::vector<double> &scores) {
  double most = 0;
  for (double score : scores)
    if (std::isfinite(score))
      most = std::max(most, std::abs(score));
  return std::max(1e-2 * most, 1e-30);
}

Tolerance::Tolerance(const reference::Kept &want, double slack, int swap)
    : want(want), slack(slack), swap(swap), swapped(want.tokens.size()) {}

bool Tolerance::near(int64_t head, int64_t token, double lowest,
                     double most) const {
  const std::vector<double> &scores = want.scores[head];
  return std::abs(scores[token] - lowest) <=
         most * std::max(std::abs(lowest), floorOf(scores)) + swap;
}

/// Its score is one that fp32 cannot tell from the lowest kept one.
bool Tolerance::keepsEither(int64_t head, int64_t token) {
  if (want.scores.empty() || token >= want.past)
    return false;
  double lowest = INFINITY;
  for (int64_t t : want.tokens[head])
    if (t < want.past)
      lowest = std::min(lowest, want.scores[head][t]);
  return near(head, token, lowest, slack);
}

bool Tolerance::scoreMayBe(int64_t head, int64_t token, float got) {
  double right = want.scores[head][token];
  if (std::isnan(right) || std::isinf(right))
    return std::isnan(right) ? std::isnan(got) : double(got) == right;
  double away = std::abs(got - right);
  if (swap && away > 0.5 && ++swapped[head] > 2 + want.past / 100)
    return false;
  double most = std::max(std::abs(right), floorOf(want.scores[head]));
  return away <= 10 * slack * most + swap;
}

/// A source is one by its score: near the lowest source's it may be none.
bool Tolerance::searchesEither(int64_t head, int64_t token) {
  if (want.scores.empty())
    return false;
  double lowest = INFINITY;
  for (int64_t t = 0; t < want.past; ++t)
    if (want.merge->sources.data[head * want.past + t] != 0)
      lowest = std::min(lowest, want.scores[head][t]);
  return near(head, token, lowest, 3e-5);
}
