//===- Problem.cpp - seeded inputs of the matrix test ---------------------===//

#include "test/matrix/Problem.h"

#include "runtime/base/DType.h"
#include "runtime/base/Half.h"
#include "executor/eviction/Metrics.h"
#include "executor/model/RaggedCache.h"
#include "test/matrix/HeadMembers.h"
#include "test/runtime/SmallCache.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace kvc;
using namespace kvc::test;

namespace {

/// Standard normal numbers, the same on every platform.
class Normal {
public:
  explicit Normal(uint64_t seed) : random(seed) {}
  float operator()() {
    double u = (double(random() >> 11) + 0.5) / double(1ull << 53);
    double v = (double(random() >> 11) + 0.5) / double(1ull << 53);
    return float(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v));
  }

private:
  std::mt19937_64 random;
};

template <kvc_dtype dtype> double roundTo(double x, int64_t) {
  auto bytes = float(x);
  if (dtype == KVC_F32)
    return bytes;
  return dtype == KVC_F16 ? rt::fromF16(rt::toF16(bytes))
                          : rt::fromBF16(rt::toBF16(bytes));
}

/// Whole vectors of zeros, or single channels that are not finite, in about one
/// vector of twelve.
void spoil(std::vector<float> &rows, int64_t d, Special special,
           uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t row = 0; row + d <= rows.size(); row += d) {
    if (random() % 12)
      continue;
    if (special == Special::Zeros)
      std::fill_n(&rows[row], d, 0.0f);
    else if (special == Special::NaNs)
      rows[row + random() % d] = NAN;
    else
      rows[row + random() % d] = random() % 2 ? INFINITY : -INFINITY;
  }
}

} // namespace

std::function<double(double, int64_t)> kvc::test::roundingTo(kvc_dtype dtype) {
  return dtype == KVC_F32   ? roundTo<KVC_F32>
         : dtype == KVC_F16 ? roundTo<KVC_F16>
                            : roundTo<KVC_BF16>;
}

std::vector<double> kvc::test::widen(std::span<const std::byte> bytes,
                                     kvc_dtype dtype) {
  return rt::toDouble(bytes.data(), bytes.size() / rt::dtypeBytes(dtype),
                      dtype);
}

int64_t kvc::test::queriesFor(PolicyOp policy, int64_t tokens) {
  int64_t most = 64;
  policy.walk([&](AttentionOp attention) {
    Value last = attention.getLast();
    auto param = last.getDefiningOp<ParamOp>();
    auto number = param ? dyn_cast<IntegerAttr>(param.getValue()) : nullptr;
    bool all = attention.readsAll() || attention.readsNew();
    most = std::max(
        {most, all ? tokens : constantOf(last), number ? number.getInt() : 0});
  });
  return std::min(tokens, most + 6);
}

Problem::Problem(const Shape &shape, int64_t tokens, int64_t budget, Keys keys,
                 uint64_t seed, int64_t queries, Special special)
    : shape(shape) {
  Normal normal(seed);
  int64_t d = shape.headDim, heads = shape.kvHeads * shape.group;
  std::vector<float> fq(heads * queries * d), fk(shape.kvHeads * tokens * d),
      fv(fk.size());
  for (float &x : fq)
    x = 3 * normal(); // sharp enough that scores differ
  for (float &x : fk)
    x = keys == Keys::Equal ? 0.5f : normal();
  for (float &x : fv)
    x = normal();
  if (keys == Keys::Repeated) // every token has a twin: exact ties
    for (int64_t g = 0; g < shape.kvHeads; ++g)
      for (int64_t t = tokens / 2; t < tokens; ++t) {
        int64_t from = (g * tokens + t - tokens / 2) * d;
        std::copy_n(&fk[from], d, &fk[(g * tokens + t) * d]);
        std::copy_n(&fv[from], d, &fv[(g * tokens + t) * d]);
      }
  // Keys before RoPE: alike in groups, so that some are near and some are not.
  std::vector<float> centres(16 * d), fraw(fk.size());
  for (float &x : centres)
    x = normal();
  for (size_t i = 0; i < fraw.size(); ++i) {
    size_t token = i / d % tokens;
    fraw[i] = keys == Keys::Equal || token % 11 == 3
                  ? 0.0f
                  : centres[token * 7 % 16 * d + i % d] + 0.6f * normal();
    // Values follow the same groups, or every similarity is near 0.
    if (keys == Keys::Random)
      fv[i] = centres[token * 7 % 16 * d + i % d] + 0.4f * fv[i];
  }
  uint64_t vectors = 0;
  for (std::vector<float> *side : {&fq, &fk, &fv, &fraw})
    if (special != Special::None)
      spoil(*side, d, special, seed * 4 + vectors++);
  q = rt::narrow(fq.data(), fq.size(), shape.dtype);
  kRaw = rt::narrow(fraw.data(), fraw.size(), shape.dtype);
  k = rt::narrow(fk.data(), fk.size(), shape.dtype);
  v = rt::narrow(fv.data(), fv.size(), shape.dtype);
  // No multiple of the 16 outputs of a step.
  layer.hidden = 40;
  std::vector<float> fwo(layer.hidden * heads * d);
  for (float &x : fwo)
    x = normal();
  wo = rt::narrow(fwo.data(), fwo.size(), shape.dtype);
  layer.wo = widen(wo, shape.dtype);
  layer.qHeads = heads;
  layer.kvHeads = shape.kvHeads;
  layer.headDim = d;
  layer.tokens = tokens;
  layer.queries = queries;
  layer.budget = budget;
  layer.scale = 1 / std::sqrt(double(d));
  layer.q = widen(q, shape.dtype);
  layer.k = widen(k, shape.dtype);
  layer.v = widen(v, shape.dtype);
  layer.kRaw = widen(kRaw, shape.dtype);
  layer.round = roundingTo(shape.dtype);
  sumExponentials();
}

void Problem::sumExponentials() {
  int64_t heads = layer.qHeads, d = layer.headDim, tokens = layer.tokens;
  int64_t queries = layer.queries;
  lse.clear();
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < queries; ++i) {
      double most = -INFINITY, sum = 0;
      std::vector<double> logits;
      for (int64_t t = 0; t <= tokens - queries + i; ++t) {
        if (!layer.hasRow(h / shape.group, t))
          continue;
        double logit = 0;
        for (int64_t e = 0; e < d; ++e)
          logit += layer.q[(h * queries + i) * d + e] *
                   layer.k[((h / shape.group) * tokens + t) * d + e];
        logits.push_back(logit * layer.scale);
        most = std::max(most, logits.back());
      }
      for (double logit : logits)
        sum += std::exp(logit - most);
      lse.push_back(float(logits.empty() ? -INFINITY : most + std::log(sum)));
    }
}

rt::LayerSequence Problem::sequence() const {
  rt::LayerSequence s;
  s.tokens = uint32_t(layer.tokens);
  s.k = k.data();
  s.v = v.data();
  s.q = q.data();
  s.queries = uint32_t(layer.queries);
  s.budget = uint32_t(layer.budget);
  s.kRaw = kRaw.data();
  s.wo = wo.data();
  s.hidden = uint32_t(layer.hidden);
  if (layer.newQueries)
    s.newQueries = uint32_t(*layer.newQueries);
  for (const std::vector<float> &state : states)
    s.states.push_back(state.data());
  if (layer.rows.empty())
    return s;
  s.lengths = lengths.data();
  s.positions = positions.data();
  s.k = held.k.data();
  s.v = held.v.data();
  s.kRaw = held.kRaw.data();
  for (size_t j = 0; j < states.size(); ++j)
    s.states[j] = held.states[j].data();
  if (!layer.members)
    return s;
  s.k = held.kRaw.data();
  s.kRaw = nullptr;
  s.members = &members;
  s.since = uint32_t(layer.since);
  return s;
}

void Problem::hold(const std::vector<std::vector<bool>> &rows) {
  layer.rows = rows;
  size_t bytes = k.size() / size_t(layer.kvHeads * layer.tokens);
  held.states.resize(states.size());
  for (int64_t g = 0; g < layer.kvHeads; ++g) {
    int32_t &length = lengths.emplace_back(0);
    for (int64_t t = 0; t < layer.tokens; ++t) {
      if (!rows[g][t])
        continue;
      ++length;
      positions.push_back(int32_t(t));
      size_t at = size_t(g * layer.tokens + t);
      for (auto [to, from] :
           {std::pair(&held.k, &k), {&held.v, &v}, {&held.kRaw, &kRaw}})
        to->insert(to->end(), from->begin() + long(at * bytes),
                   from->begin() + long((at + 1) * bytes));
      for (size_t j = 0; j < states.size(); ++j)
        held.states[j].push_back(states[j][at]);
    }
  }
  sumExponentials();
}

void Problem::merge(uint64_t seed) {
  std::mt19937 random{uint32_t(seed)};
  layer.since = int64_t(random() % 50);
  layer.narrow = [round = layer.round](double x) { return round(x, 0); };
  reference::Layer::Members &before = layer.members.emplace();
  auto row = positions.begin();
  for (int32_t length : lengths) {
    std::vector<int32_t> tokens(row, row + length);
    row += length;
    HeadMembers drawn = drawMembers(tokens, int32_t(layer.tokens), random);
    std::vector<int64_t> &rows = before.rows.emplace_back(layer.tokens, -1);
    std::vector<double> &norms = before.norms.emplace_back(layer.tokens);
    for (size_t i = 0; i < drawn.rows.size(); ++i) {
      rows[size_t(drawn.positions[i])] = tokens[size_t(drawn.rows[i])];
      norms[size_t(drawn.positions[i])] = drawn.norms[i];
    }
    auto append = [](auto &to, const auto &from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    members.counts.push_back(int32_t(drawn.rows.size()));
    append(members.rows, drawn.rows);
    append(members.positions, drawn.positions);
    append(members.norms, drawn.norms);
  }
  angles = ropeOf(uint32_t(layer.tokens), uint32_t(layer.headDim));
  layer.angles = {angles.begin(), angles.end()};
}

void Problem::carry(ArrayRef<StringAttr> names, uint64_t seed) {
  std::mt19937_64 random(seed);
  layer.newQueries = int64_t(random() % 3 ? random() % (layer.queries + 1)
                                          : random() % 2 * layer.queries);
  for (StringAttr name : names) {
    std::vector<float> &state = states.emplace_back();
    for (int64_t i = 0; i < layer.kvHeads * layer.tokens; ++i)
      state.push_back(float(random() % 64) / 16);
    layer.rowStates[name.str()] = {state.begin(), state.end()};
  }
}

std::vector<float> Problem::table(int64_t layers, int64_t qHeads) {
  Normal normal(uint64_t(layers * 100 + qHeads));
  std::vector<float> result;
  for (int64_t i = 0; i < layers * qHeads; ++i)
    result.push_back(i % 5 == 3   ? 0.0f
                     : i % 7 == 2 ? 0.25f
                                  : std::abs(normal()));
  result.back() = float(layers);
  return result;
}
