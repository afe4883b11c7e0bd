//===- Selection.cpp - what allocation, selection and search compute ------===//

#include "dialect/reference/Meaning.h"

#include <boost/multiprecision/cpp_int.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace kvc;
using namespace kvc::reference;

static constexpr double infinity = std::numeric_limits<double>::infinity();

using Rational = boost::multiprecision::cpp_rational;
using Whole = boost::multiprecision::cpp_int;

std::vector<int64_t> reference::countMass(const Tensor &score, double rest) {
  std::vector<int64_t> counts;
  int64_t past = score.shape[1];
  for (int64_t g = 0; g < score.heads(); ++g) {
    std::vector<double> row(score.data.begin() + g * past,
                            score.data.begin() + (g + 1) * past);
    for (double &x : row)
      x = std::isnan(x) ? 0 : x;
    std::sort(row.begin(), row.end());
    double left = 0;
    int64_t dropped = 0;
    for (int64_t n = 0; n < past; ++n) {
      left += row[n];
      if (left <= rest)
        dropped = n + 1; // a sum may fall before it rises
    }
    counts.push_back(past - dropped);
  }
  return counts;
}

Tensor reference::topk(const Tensor &score,
                       const std::vector<int64_t> &counts) {
  Tensor result = score;
  int64_t past = score.shape[1];
  for (int64_t g = 0; g < score.heads(); ++g) {
    const double *row = score.data.data() + g * past;
    std::vector<int64_t> order(past);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      if (std::isnan(row[a]) != std::isnan(row[b]))
        return std::isnan(row[b]);
      if (!std::isnan(row[a]) && row[a] != row[b])
        return row[a] > row[b];
      return a < b;
    });
    int64_t count = std::clamp<int64_t>(counts[g], 0, past);
    for (int64_t i = 0; i < past; ++i)
      result.data[g * past + order[i]] = i < count;
  }
  return result;
}

/// Rounds shares to `total`: what their floors leave goes one by one to the largest
/// remainders, then to who `comesFirst`.
static std::vector<int64_t>
roundShares(const std::vector<Rational> &shares, int64_t total,
            llvm::function_ref<bool(size_t, size_t)> comesFirst) {
  std::vector<int64_t> counts, order(shares.size());
  std::vector<Rational> remainders;
  for (const Rational &share : shares) {
    Whole whole = numerator(share) / denominator(share);
    counts.push_back(whole.convert_to<int64_t>());
    remainders.push_back(share - Rational(whole));
    total -= counts.back();
  }
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (remainders[a] != remainders[b])
      return remainders[a] > remainders[b];
    return comesFirst(size_t(a), size_t(b));
  });
  for (int64_t i = 0; i < total; ++i)
    ++counts[order[i]];
  return counts;
}

int64_t reference::allocateLayers(int64_t share, int64_t past, int64_t layer,
                                  int64_t layers, int64_t numerator,
                                  int64_t denominator) {
  if (layers == 1)
    return share;
  // lo = share * denominator / numerator; everything times numerator.
  int64_t low = share * denominator, high = 2 * share * numerator - low;
  if (high > past * numerator) {
    high = past * numerator;
    low = 2 * share * numerator - high;
  }
  std::vector<Rational> shares;
  for (int64_t l = 0; l < layers; ++l)
    shares.push_back(
        Rational(high * (layers - 1 - l) + low * l, numerator * (layers - 1)));
  return roundShares(shares, layers * share, std::less<size_t>())[layer];
}

/// Shares of `total`, none above its capacity: those above are set to it, the
/// others share what is left in proportion, or equally where all are 0.
static std::vector<Rational> shareOut(std::vector<Rational> shares,
                                      const std::vector<int64_t> &capacities,
                                      int64_t total) {
  std::vector<bool> full(shares.size());
  for (bool again = true; again;) {
    again = false;
    Rational left = total, open = 0;
    int64_t others = 0;
    for (size_t i = 0; i < shares.size(); ++i) {
      left -= full[i] ? capacities[i] : 0;
      open += full[i] ? Rational(0) : shares[i];
      others += !full[i];
    }
    for (size_t i = 0; i < shares.size(); ++i)
      if (!full[i])
        shares[i] = open == 0 ? Rational(left / others)
                              : Rational(shares[i] * left / open);
    for (size_t i = 0; i < shares.size(); ++i)
      if (!full[i] && shares[i] > capacities[i]) {
        shares[i] = capacities[i];
        full[i] = again = true;
      }
  }
  return shares;
}

std::vector<int64_t>
reference::allocateHeads(const Tensor &score, const std::vector<int64_t> &base,
                         int64_t numerator, int64_t denominator,
                         const std::vector<std::vector<bool>> &marks) {
  int64_t past = score.shape[1], heads = score.heads();
  // The order of a top-k: NaN lowest, then the smaller token, then the smaller head.
  std::vector<std::pair<int64_t, int64_t>> items;
  std::vector<int64_t> capacities;
  for (int64_t t = 0; t < past; ++t)
    for (int64_t g = 0; g < heads; ++g)
      if (marks[g][t])
        items.emplace_back(t, g);
  for (const std::vector<bool> &marked : marks)
    capacities.push_back(std::count(marked.begin(), marked.end(), true));
  int64_t total = 0; // a base may be any number
  for (int64_t own : base)
    total = std::min(total + std::min<int64_t>(own, items.size()),
                     int64_t(items.size()));
  auto scoreOf = [&](std::pair<int64_t, int64_t> item) {
    return score.data[item.second * past + item.first];
  };
  std::sort(items.begin(), items.end(), [&](auto a, auto b) {
    double x = scoreOf(a), y = scoreOf(b);
    if (std::isnan(x) || std::isnan(y) || x == y)
      return std::isnan(x) == std::isnan(y) ? a < b : std::isnan(y);
    return x > y;
  });
  std::vector<int64_t> chosen(heads);
  for (int64_t i = 0; i < total; ++i)
    ++chosen[items[i].second];
  std::vector<Rational> shares;
  for (int64_t g = 0; g < heads; ++g)
    shares.push_back(Rational(Whole(denominator - numerator) * chosen[g] +
                                  Whole(numerator) * base[g],
                              denominator));
  return roundShares(shareOut(shares, capacities, total), total,
                     std::less<size_t>());
}

std::vector<int64_t> reference::allocateTable(const Layer &layer, int64_t base,
                                              int64_t shared, int64_t past) {
  int64_t heads = layer.layers * layer.kvHeads;
  int64_t group = layer.qHeads / layer.kvHeads;
  std::vector<Rational> share(heads);
  Rational sum = 0;
  for (double entry : layer.table)
    sum += Rational(entry);
  for (int64_t i = 0; i < heads; ++i) {
    for (int64_t j = 0; j < group; ++j)
      share[i] += Rational(layer.table[i * group + j]) / sum;
    share[i] = base + share[i] * shared * heads;
  }
  if (base + shared >= past) // all heads are full, whatever the table says
    return std::vector<int64_t>(layer.kvHeads, past);
  int64_t total = (base + shared) * heads;
  std::vector<int64_t> counts =
      roundShares(shareOut(share, std::vector<int64_t>(heads, past), total),
                  total, [&](size_t a, size_t b) {
                    return std::pair(a % layer.kvHeads, a) <
                           std::pair(b % layer.kvHeads, b);
                  });
  auto first = counts.begin() + layer.layer * layer.kvHeads;
  return {first, first + layer.kvHeads};
}

Tensor reference::selectHeads(const Tensor &value, int64_t count, bool lowest) {
  Tensor result = value;
  for (int64_t g = 0; g < value.heads(); ++g) {
    double mine = value.data[g];
    int64_t before = 0;
    for (int64_t h = 0; h < value.heads(); ++h) {
      double theirs = value.data[h];
      before += lowest ? theirs < mine : theirs > mine;
      before += theirs == mine && h < g;
    }
    result.data[g] =
        count >= value.heads() || (!std::isnan(mine) && before < count);
  }
  return result;
}

static double cosine(const double *a, const double *b, int64_t d) {
  double dot = std::inner_product(a, a + d, b, 0.0);
  double ofA = std::inner_product(a, a + d, a, 0.0);
  double ofB = std::inner_product(b, b + d, b, 0.0);
  if (std::isnan(ofA) || std::isnan(ofB))
    return NAN;
  // Each by itself: beside an infinite vector too a zero vector has cosine 0.
  return ofA == 0 || ofB == 0 ? 0 : dot / std::sqrt(ofA * ofB);
}

double
reference::similarity(const Layer &layer,
                      const std::vector<const std::vector<double> *> &sides,
                      int64_t head, int64_t i, int64_t j) {
  double product = 1;
  int negative = 0;
  for (const std::vector<double> *side : sides) {
    const double *rows = side->data() + head * layer.tokens * layer.headDim;
    double c = cosine(rows + i * layer.headDim, rows + j * layer.headDim,
                      layer.headDim);
    product *= c;
    negative += c < 0;
  }
  return negative == 2 ? -1 : product;
}

Tensor reference::nearest(const Layer &layer,
                          const std::vector<const std::vector<double> *> &sides,
                          const Tensor &sources, const Tensor &centres,
                          double least) {
  Tensor result = sources;
  int64_t past = sources.shape[1];
  for (int64_t g = 0; g < layer.kvHeads; ++g)
    for (int64_t i = 0; i < past; ++i) {
      double &to = result.data[g * past + i];
      double best = -infinity;
      bool source = to != 0;
      to = -1;
      for (int64_t j = 0; source && j < past; ++j)
        if (centres.data[g * past + j] != 0)
          if (double r = similarity(layer, sides, g, i, j); r > best)
            best = r, to = double(j);
      if (!(best >= least))
        to = -1;
    }
  return result;
}
