//===- Transformer.cpp - the forward pass, in the order of the papers -----===//

#include "executor/model/Transformer.h"

#include "executor/model/Blas.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kvc::rt;

namespace {

/// y[rows, out] = x[rows, in] * w[out, in]^T + b; b may be empty.
std::vector<float> apply(const std::vector<float> &weight,
                         const std::vector<float> &bias, const float *x,
                         uint32_t rows, uint32_t in) {
  auto out = uint32_t(weight.size() / in);
  std::vector<float> y(size_t(rows) * out);
  for (uint32_t r = 0; r < rows && !bias.empty(); ++r)
    std::copy(bias.begin(), bias.end(), &y[size_t(r) * out]);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, int(rows), int(out),
              int(in), 1.0f, x, int(in), weight.data(), int(in),
              bias.empty() ? 0.0f : 1.0f, y.data(), int(out));
  return y;
}

std::vector<float> apply(const Linear &linear, const float *x, uint32_t rows,
                         uint32_t in) {
  return apply(linear.weight, linear.bias, x, rows, in);
}

/// Each of `rows` rows; `out` may be `x`.
void rmsNorm(const float *x, size_t rows, const std::vector<float> &weight,
             double eps, float *out) {
  size_t width = weight.size();
  for (size_t r = 0; r < rows; ++r, x += width, out += width) {
    double squares = 0;
    for (size_t i = 0; i < width; ++i)
      squares += double(x[i]) * x[i];
    auto scale = float(1.0 / std::sqrt(squares / double(width) + eps));
    for (size_t i = 0; i < width; ++i)
      out[i] = x[i] * scale * weight[i];
  }
}

std::vector<float> rmsNorm(const float *x, uint32_t rows,
                           const std::vector<float> &weight, double eps) {
  std::vector<float> y(rows * weight.size());
  rmsNorm(x, rows, weight, eps, y.data());
  return y;
}

/// [T, heads, d] to [heads, T, d]
std::vector<float> headsFirst(const std::vector<float> &x, uint32_t tokens,
                              uint32_t dim) {
  size_t heads = x.size() / tokens / dim;
  std::vector<float> y(x.size());
  for (size_t t = 0; t < tokens; ++t)
    for (size_t h = 0; h < heads; ++h)
      std::memcpy(&y[(h * tokens + t) * dim], &x[(t * heads + h) * dim],
                  dim * sizeof(float));
  return y;
}

/// Softmax in place; returns the natural log-sum-exp.
float softmax(float *row, uint32_t count) {
  float most = *std::max_element(row, row + count);
  double sum = 0;
  for (uint32_t t = 0; t < count; ++t)
    sum += row[t] = std::exp(row[t] - most);
  for (uint32_t t = 0; t < count; ++t)
    row[t] = float(row[t] / sum);
  return float(most + std::log(sum));
}

void addTo(std::vector<float> &x, const std::vector<float> &more) {
  for (size_t i = 0; i < x.size(); ++i)
    x[i] += more[i];
}

} // namespace

Transformer::Transformer(const std::string &dir)
    : config(Config::read(dir)), weights(Weights::read(dir, config)),
      rope(config.headDim, config.ropeTheta, config.ropeScaling) {
  claimBlasMemory();
  // Threads meet at the end of every product. Where products are small that
  // costs more than it brings, and much more on a machine that is busy.
  constexpr uint64_t smallLayer = 1 << 22; // weights
  uint64_t layer = uint64_t(config.hidden) *
                   (3ull * config.intermediate +
                    2ull * config.headDim * (config.qHeads + config.kvHeads));
  if (layer < smallLayer)
    openblas_set_num_threads(1);
}

/// Queries, keys and values of a layer's input.
LayerActivations Transformer::project(const LayerWeights &w,
                                      const std::vector<float> &x,
                                      uint32_t tokens,
                                      uint32_t position) const {
  uint32_t d = config.headDim;
  auto normed = rmsNorm(x.data(), tokens, w.attentionNorm, config.normEps);
  auto heads = [&](const Linear &linear, const std::vector<float> &norm) {
    auto y = headsFirst(apply(linear, normed.data(), tokens, config.hidden),
                        tokens, d);
    if (!norm.empty())
      rmsNorm(y.data(), y.size() / d, norm, config.normEps, y.data());
    return y;
  };
  LayerActivations layer;
  layer.tokens = tokens;
  layer.q = heads(w.q, w.queryNorm);
  layer.kRaw = heads(w.k, w.keyNorm);
  layer.v = heads(w.v, {});
  layer.k = layer.kRaw;
  for (std::vector<float> *rotated : {&layer.q, &layer.k})
    for (size_t row = 0; row < rotated->size() / d; ++row)
      rope.rotate(&(*rotated)[row * d], position + uint32_t(row % tokens));
  return layer;
}

/// Attention to the cache and, causally, to the tokens themselves, a block of
/// queries at a time. Returns [T, Hq, d].
std::vector<float> Transformer::attend(LayerActivations &layer,
                                       const RaggedCache &cache) const {
  uint32_t tokens = layer.tokens, d = config.headDim, heads = config.qHeads;
  uint32_t group = heads / config.kvHeads;
  auto scale = float(1.0 / std::sqrt(double(d)));
  layer.lse.resize(size_t(heads) * tokens);
  std::vector<float> out(size_t(tokens) * heads * d);
  constexpr uint32_t most = 128; // queries of a block
  uint32_t block = std::min(most, tokens);
  std::vector<float> rows, result(size_t(block) * d), pastK, pastV;
  RaggedCache::Attended seen = {};
  for (uint32_t h = 0; h < heads; ++h) {
    if (h % group == 0)
      seen = cache.attended(h / group, rope, pastK, pastV);
    auto past = uint32_t(seen.count);
    rows.resize(size_t(block) * (past + tokens));
    const float *q = &layer.q[size_t(h) * tokens * d];
    const float *k = &layer.k[size_t(h / group) * tokens * d];
    const float *v = &layer.v[size_t(h / group) * tokens * d];
    for (uint32_t first = 0; first < tokens; first += block) {
      uint32_t count = std::min(block, tokens - first), own = first + count;
      uint32_t width = past + own;
      auto product = [&](const float *keys, uint32_t n, float *to) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, int(count), int(n),
                    int(d), scale, q + size_t(first) * d, int(d), keys, int(d),
                    0.0f, to, int(width));
      };
      if (past)
        product(seen.k, past, rows.data());
      product(k, own, rows.data() + past);
      for (uint32_t r = 0; r < count; ++r) {
        float *row = &rows[size_t(r) * width];
        uint32_t visible = past + first + r + 1;
        layer.lse[size_t(h) * tokens + first + r] = softmax(row, visible);
        std::fill(row + visible, row + width, 0.0f);
      }
      auto mix = [&](const float *from, uint32_t n, const float *values,
                     float beta) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, int(count),
                    int(d), int(n), 1.0f, from, int(width), values, int(d),
                    beta, result.data(), int(d));
      };
      if (past)
        mix(rows.data(), past, seen.v, 0.0f);
      mix(rows.data() + past, own, v, past ? 1.0f : 0.0f);
      for (uint32_t r = 0; r < count; ++r)
        std::memcpy(&out[(size_t(first + r) * heads + h) * d],
                    &result[size_t(r) * d], d * sizeof(float));
    }
  }
  return out;
}

/// x += down(silu(gate(norm(x))) * up(norm(x))), some tokens at a time: the
/// inner vectors are the widest of the model.
void Transformer::addMlp(const LayerWeights &w, std::vector<float> &x) const {
  uint32_t hidden = config.hidden;
  auto tokens = uint32_t(x.size() / hidden);
  constexpr uint32_t block = 256;
  for (uint32_t first = 0; first < tokens; first += block) {
    uint32_t rows = std::min(block, tokens - first);
    float *at = &x[size_t(first) * hidden];
    auto normed = rmsNorm(at, rows, w.mlpNorm, config.normEps);
    auto gate = apply(w.gate, normed.data(), rows, hidden);
    auto up = apply(w.up, normed.data(), rows, hidden);
    for (size_t i = 0; i < gate.size(); ++i)
      gate[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
    auto down = apply(w.down, gate.data(), rows, config.intermediate);
    for (size_t i = 0; i < down.size(); ++i)
      at[i] += down[i];
  }
}

std::vector<float> Transformer::logits(const float *output,
                                       uint32_t rows) const {
  auto normed = rmsNorm(output, rows, weights.norm, config.normEps);
  return apply(weights.head.empty() ? weights.embedding : weights.head, {},
               normed.data(), rows, config.hidden);
}

std::vector<float> Transformer::run(const std::vector<uint32_t> &tokens,
                                    uint32_t position,
                                    const std::vector<RaggedCache> &cache,
                                    const LayerHook &hook) const {
  auto count = uint32_t(tokens.size());
  uint32_t hidden = config.hidden;
  std::vector<float> x(size_t(count) * hidden); // [T, hidden]
  for (uint32_t t = 0; t < count; ++t)
    std::memcpy(&x[size_t(t) * hidden],
                &weights.embedding[size_t(tokens[t]) * hidden],
                hidden * sizeof(float));
  for (uint32_t l = 0; l < config.layers; ++l) {
    const LayerWeights &w = weights.layers[l];
    LayerActivations layer = project(w, x, count, position);
    std::vector<float> attention = attend(layer, cache[l]); // [T, Hq * d]
    hook(l, layer);
    layer = {}; // what stays is in the cache
    addTo(x,
          apply(w.o, attention.data(), count, config.qHeads * config.headDim));
    addMlp(w, x);
  }
  return x;
}
