//===- Meaning.cpp - what each op computes, plainly, in double ------------===//

#include "dialect/reference/Meaning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace kvc;
using namespace kvc::reference;

static constexpr double infinity = std::numeric_limits<double>::infinity();

int64_t Tensor::perHead() const {
  return std::accumulate(shape.begin() + (shape.empty() ? 0 : 1), shape.end(),
                         int64_t(1), std::multiplies<>());
}

Tensor reference::attention(const Layer &layer, int64_t queries, int64_t past,
                            bool rounded) {
  int64_t d = layer.headDim, tokens = layer.tokens;
  int64_t group = layer.qHeads / layer.kvHeads;
  Tensor result{{Axis::QueryHeads, Axis::Query, Axis::Past},
                {layer.qHeads, queries, past},
                {}};
  for (int64_t h = 0; h < layer.qHeads; ++h)
    for (int64_t i = 0; i < queries; ++i) {
      // Queries in front of the sequence do not exist: no weight. Only where
      // the window takes the whole budget and nothing is ranked.
      if (tokens < queries - i || layer.queries < queries - i) {
        result.data.insert(result.data.end(), past, 0.0);
        continue;
      }
      const double *q =
          &layer.q[(h * layer.queries + layer.queries - queries + i) * d];
      int64_t own = tokens - queries + i;
      std::vector<double> logits(tokens, -infinity);
      for (int64_t t = 0; t <= own; ++t) {
        if (!layer.hasRow(h / group, t))
          continue;
        const double *k = &layer.k[((h / group) * tokens + t) * d];
        logits[t] = layer.scale * std::inner_product(q, q + d, k, 0.0);
      }
      double most = -infinity;
      for (double logit : logits)
        most = std::isnan(logit) ? logit : std::max(most, logit);
      double sum = 0;
      for (double logit : logits)
        sum += std::exp(logit - most);
      for (int64_t t = 0; t < past; ++t) {
        // What the query does not see has no weight, whatever the others have.
        bool seen = t <= own && layer.hasRow(h / group, t);
        double weight = seen ? std::exp(logits[t] - most) / sum : 0;
        result.data.push_back(rounded ? layer.round(weight, h * queries + i)
                                      : weight);
      }
    }
  return result;
}

Tensor reference::logits(const Layer &layer, int64_t queries, int64_t past) {
  int64_t d = layer.headDim, group = layer.qHeads / layer.kvHeads;
  Tensor result{{Axis::QueryHeads, Axis::Query, Axis::Past},
                {layer.qHeads, queries, past},
                {}};
  for (int64_t h = 0; h < layer.qHeads; ++h)
    for (int64_t i = 0; i < queries; ++i) {
      // Queries in front of the sequence do not exist, see attention.
      int64_t row = layer.queries - queries + i;
      if (row < 0) {
        result.data.insert(result.data.end(), past, 0.0);
        continue;
      }
      const double *q = &layer.q[(h * layer.queries + row) * d];
      for (int64_t t = 0; t < past; ++t) {
        const double *k = &layer.k[((h / group) * layer.tokens + t) * d];
        result.data.push_back(layer.hasRow(h / group, t)
                                  ? layer.scale *
                                        std::inner_product(q, q + d, k, 0.0)
                                  : 0);
      }
    }
  return result;
}

Tensor reference::norm(const Layer &layer, const std::vector<double> &rows,
                       int64_t past, bool l2) {
  int64_t d = layer.headDim;
  Tensor result{{Axis::KVHeads, Axis::Past}, {layer.kvHeads, past}, {}};
  for (int64_t g = 0; g < layer.kvHeads; ++g)
    for (int64_t t = 0; t < past; ++t) {
      double sum = 0;
      for (int64_t i = 0; i < d && layer.hasRow(g, t); ++i) {
        double x = rows[(g * layer.tokens + t) * d + i];
        sum += l2 ? x * x : std::abs(x);
      }
      result.data.push_back(l2 ? std::sqrt(sum) : sum);
    }
  return result;
}

Tensor reference::projectedNorm(const Layer &layer, int64_t past, bool l2) {
  int64_t d = layer.headDim, group = layer.qHeads / layer.kvHeads;
  Tensor result{{Axis::QueryHeads, Axis::Past}, {layer.qHeads, past}, {}};
  for (int64_t h = 0; h < layer.qHeads; ++h)
    for (int64_t t = 0; t < past; ++t) {
      const double *v = &layer.v[((h / group) * layer.tokens + t) * d];
      double sum = 0;
      for (int64_t n = 0; n < layer.hidden && layer.hasRow(h / group, t); ++n) {
        const double *w = &layer.wo[(n * layer.qHeads + h) * d];
        double x = std::inner_product(v, v + d, w, 0.0);
        sum += l2 ? x * x : std::abs(x);
      }
      result.data.push_back(l2 ? std::sqrt(sum) : sum);
    }
  return result;
}

Tensor reference::vectors(const Layer &layer, const std::vector<double> &rows,
                          int64_t past) {
  Tensor result{{Axis::KVHeads, Axis::Channel, Axis::Past},
                {layer.kvHeads, layer.headDim, past},
                {}};
  for (int64_t g = 0; g < layer.kvHeads; ++g)
    for (int64_t c = 0; c < layer.headDim; ++c)
      for (int64_t t = 0; t < past; ++t)
        result.data.push_back(
            layer.hasRow(g, t)
                ? rows[(g * layer.tokens + t) * layer.headDim + c]
                : 0);
  return result;
}

Tensor reference::position(int64_t past, int64_t tokens) {
  Tensor result{{Axis::OneHead, Axis::Past}, {1, past}, {}};
  for (int64_t t = 0; t < past; ++t)
    result.data.push_back(double(tokens ? tokens - 1 - t : t));
  return result;
}

int64_t reference::Layer::countRows(int64_t kvHead, int64_t end) const {
  int64_t count = 0;
  for (int64_t t = 0; t < end; ++t)
    count += hasRow(kvHead, t);
  return count;
}

Tensor reference::rowNumbers(const Layer &layer, int64_t past, bool fromEnd) {
  Tensor result{{Axis::KVHeads, Axis::Past}, {layer.kvHeads, past}, {}};
  for (int64_t g = 0; g < layer.kvHeads; ++g)
    for (int64_t t = 0, front = 0; t < past; front += layer.hasRow(g, t), ++t)
      result.data.push_back(
          double(fromEnd ? layer.countRows(g, layer.tokens) - 1 - front
                         : front));
  return result;
}

Tensor
reference::ofMarked(const Tensor &value,
                    const std::vector<std::vector<bool>> &marks,
                    llvm::function_ref<Tensor(const Tensor &, int64_t)> op) {
  int64_t past = value.shape.back();
  int64_t inner = value.shape.size() == 3 ? value.shape[1] : 1;
  int64_t run = value.heads() / int64_t(marks.size());
  Tensor result{value.axes, value.shape, {}};
  for (int64_t h = 0; h < value.heads(); ++h) {
    const std::vector<bool> &marked = marks[h / run];
    Tensor head{value.axes, value.shape, {}};
    head.shape.front() = 1;
    head.shape.back() = std::count(marked.begin(), marked.begin() + past, true);
    for (int64_t i = 0; i < inner; ++i)
      for (int64_t t = 0; t < past; ++t)
        if (marked[t])
          head.data.push_back(value.data[(h * inner + i) * past + t]);
    Tensor made = op(head, h);
    if (made.shape.size() < value.shape.size()) { // one value for all tokens
      result.axes = made.axes;
      result.shape = made.shape;
      result.shape.front() = value.heads();
      result.data.insert(result.data.end(), made.data.begin(), made.data.end());
      continue;
    }
    auto next = made.data.begin();
    for (int64_t i = 0; i < inner; ++i)
      for (int64_t t = 0; t < past; ++t)
        result.data.push_back(marked[t] ? *next++ : 0);
  }
  return result;
}

/// The largest or smallest; NaN where one is.
static double extreme(const std::vector<double> &values, bool largest) {
  double result = largest ? -infinity : infinity;
  for (double value : values) {
    if (std::isnan(value))
      return value;
    result = largest ? std::max(result, value) : std::min(result, value);
  }
  return result;
}

static double combine(const std::vector<double> &values, ReduceKind kind) {
  double sum = std::accumulate(values.begin(), values.end(), 0.0);
  double mean = sum / double(values.size());
  switch (kind) {
  case ReduceKind::Max:
    return extreme(values, /*largest=*/true);
  case ReduceKind::Min:
    return extreme(values, /*largest=*/false);
  case ReduceKind::Sum:
    return sum;
  case ReduceKind::Mean:
    return mean;
  case ReduceKind::Std: {
    double squares = 0;
    for (double value : values)
      squares += (value - mean) * (value - mean);
    return std::sqrt(squares / double(values.size()));
  }
  }
  llvm_unreachable("all kinds are listed");
}

Tensor reference::reduce(const Tensor &value, size_t dim, ReduceKind kind) {
  int64_t extent = value.shape[dim], inner = 1, outer = 1;
  for (size_t i = 0; i < value.shape.size(); ++i)
    (i < dim ? outer : inner) *= i == dim ? 1 : value.shape[i];
  Tensor result = value;
  result.axes.erase(result.axes.begin() + dim);
  result.shape.erase(result.shape.begin() + dim);
  result.data.clear();
  std::vector<double> values;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      values.clear();
      for (int64_t e = 0; e < extent; ++e)
        values.push_back(value.data[(o * extent + e) * inner + i]);
      result.data.push_back(combine(values, kind));
    }
  return result;
}

Tensor reference::reduceMembers(const Layer &layer, const Tensor &value,
                                int64_t past, ReduceKind kind) {
  Tensor result{{Axis::KVHeads, Axis::Past}, {layer.kvHeads, past}, {}};
  for (int64_t g = 0; g < layer.kvHeads; ++g) {
    std::vector<std::vector<double>> ofRow(past);
    for (int64_t p = 0; p < layer.tokens; ++p) {
      int64_t row = layer.members        ? layer.members->rows[g][p]
                    : layer.hasRow(g, p) ? p
                                         : -1;
      if (row >= 0 && row < past)
        ofRow[row].push_back(value.data[g * layer.tokens + p]);
    }
    for (int64_t t = 0; t < past; ++t)
      result.data.push_back(layer.hasRow(g, t) ? combine(ofRow[t], kind) : 0);
  }
  return result;
}

/// Heads in runs of `run`, each run to one.
static Tensor reduceRuns(const Tensor &value, int64_t run, Axis axis,
                         ReduceKind kind) {
  Tensor result = value;
  result.axes[0] = axis;
  result.shape[0] = value.shape[0] / run;
  result.data.clear();
  int64_t inner = value.perHead();
  std::vector<double> values;
  for (int64_t h = 0; h < result.shape[0]; ++h)
    for (int64_t i = 0; i < inner; ++i) {
      values.clear();
      for (int64_t j = 0; j < run; ++j)
        values.push_back(value.data[(h * run + j) * inner + i]);
      result.data.push_back(combine(values, kind));
    }
  return result;
}

Tensor reference::reduceGroup(const Tensor &value, int64_t kvHeads,
                              ReduceKind kind) {
  return reduceRuns(value, value.heads() / kvHeads, Axis::KVHeads, kind);
}

Tensor reference::reduceHeads(const Tensor &value, ReduceKind kind) {
  return reduceRuns(value, value.heads(), Axis::OneHead, kind);
}

Tensor reference::reduceHeads(const Tensor &value, ReduceKind kind,
                              const std::vector<std::vector<bool>> &marks) {
  int64_t past = value.shape.back(), heads = value.heads();
  if (heads == 1) // of all heads
    return reduceHeads(value, kind);
  int64_t inner = value.shape.size() == 3 ? value.shape[1] : 1;
  int64_t run = heads / int64_t(marks.size());
  Tensor result{value.axes, value.shape, {}};
  result.axes.front() = Axis::OneHead;
  result.shape.front() = 1;
  std::vector<double> values;
  for (int64_t i = 0; i < inner; ++i)
    for (int64_t t = 0; t < past; ++t) {
      values.clear();
      for (int64_t h = 0; h < heads; ++h)
        if (marks[h / run][t])
          values.push_back(value.data[(h * inner + i) * past + t]);
      if (values.empty())
        result.data.push_back(0); // nobody has this token
      else if (kind == ReduceKind::Mean)
        result.data.push_back(combine(values, ReduceKind::Sum) / double(heads));
      else
        result.data.push_back(combine(values, kind));
    }
  return result;
}

Tensor reference::pool(const Tensor &value, int64_t width, bool max,
                       bool countPadding) {
  Tensor result = value;
  int64_t past = value.shape.back(), half = width / 2;
  int64_t rows = past ? int64_t(value.data.size()) / past : 0;
  std::vector<double> near;
  for (int64_t h = 0; h < rows; ++h)
    for (int64_t t = 0; t < past; ++t) {
      near.clear();
      for (int64_t u = std::max<int64_t>(0, t - half);
           u < std::min(past, t + half + 1); ++u)
        near.push_back(value.data[h * past + u]);
      double pooled = combine(near, max ? ReduceKind::Max : ReduceKind::Sum);
      if (!max)
        pooled /= countPadding ? double(width) : double(near.size());
      result.data[h * past + t] = pooled;
    }
  return result;
}

/// One token's value set against the values of a segment. `before[u]` is true
/// where the segment's value stands in front of the token in the sequence.
static double against(double x, const std::vector<double> &values,
                      const std::vector<bool> &before, SegmentKind kind) {
  double least = combine(values, ReduceKind::Min);
  double most = combine(values, ReduceKind::Max);
  switch (kind) {
  case SegmentKind::Max:
    return most;
  case SegmentKind::Min:
    return least;
  case SegmentKind::Sum:
    return combine(values, ReduceKind::Sum);
  case SegmentKind::Mean:
    return combine(values, ReduceKind::Mean);
  case SegmentKind::MinMax: {
    double range = most - least; // of infinities NaN, which is not 0
    return (x - least) / (range == 0 ? 1 : range);
  }
  case SegmentKind::Softmax: {
    double sum = 0;
    for (double value : values)
      sum += std::exp(value - most);
    return values.empty() ? NAN : std::exp(x - most) / sum;
  }
  case SegmentKind::Rank: {
    double behind = 0;
    for (size_t u = 0; u < values.size(); ++u) {
      bool equal = values[u] == x || (std::isnan(values[u]) && std::isnan(x));
      bool less = values[u] < x || (std::isnan(values[u]) && !std::isnan(x));
      behind += less || (equal && !before[u]);
    }
    return behind;
  }
  }
  return 0;
}

Tensor reference::segment(const Tensor &value, SegmentKind kind, int64_t length,
                          int64_t from, bool next) {
  Tensor result = value;
  int64_t past = value.shape.back();
  from = std::max<int64_t>(0, from);
  int64_t rows = past ? int64_t(value.data.size()) / past : 0;
  std::vector<double> values;
  std::vector<bool> before;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t t = 0; t < past; ++t) {
      int64_t end = t < from ? from : t - (t - from) % length + length;
      int64_t begin = t < from ? 0 : end - length;
      if (next)
        begin = std::exchange(end, end + length);
      values.clear();
      before.clear();
      for (int64_t u = begin; u < std::min(end, past); ++u)
        values.push_back(value.data[row * past + u]), before.push_back(u <= t);
      result.data[row * past + t] =
          against(value.data[row * past + t], values, before, kind);
    }
  return result;
}

Tensor reference::broadcast(const Tensor &value, const AxisList &axes,
                            const std::vector<int64_t> &shape) {
  Tensor result{axes, shape, {}};
  int64_t past = shape.back();
  int64_t inner = result.perHead();
  for (int64_t h = 0; h < shape[0]; ++h)
    for (int64_t i = 0; i < inner; ++i) {
      int64_t from = 0;
      if (!value.shape.empty()) {
        int64_t head = h / (shape[0] / value.heads());
        size_t rank = value.shape.size();
        bool ofChannels = value.axes.back() == Axis::Channel;
        from = rank == 1              ? head
               : rank == shape.size() ? head * inner + i
               : ofChannels           ? head * (inner / past) + i / past
                                      : head * past + i % past;
      }
      result.data.push_back(value.data[from]);
    }
  return result;
}

Tensor reference::broadcastLike(const Tensor &value, const Tensor &like) {
  if (value.shape == like.shape)
    return value;
  Tensor rows = value;
  if (value.shape.size() == 3 && value.shape[1] == 1 && like.shape[1] != 1) {
    rows.axes.erase(rows.axes.begin() + 1);
    rows.shape.erase(rows.shape.begin() + 1);
  }
  return broadcast(rows, like.axes, like.shape);
}
