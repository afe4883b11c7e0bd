//===- Llama.cpp - the forward pass, in the order of the paper ------------===//

#include "runtime/model/Llama.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kvc::rt;

namespace {

/// y[rows, out] = x[rows, in] * w[out, in]^T
std::vector<float> project(const float *x, uint32_t rows,
                           const std::vector<float> &w, uint32_t out,
                           uint32_t in) {
  std::vector<float> y(size_t(rows) * out);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, int(rows), int(out),
              int(in), 1.0f, x, int(in), w.data(), int(in), 0.0f, y.data(),
              int(out));
  return y;
}

std::vector<float> rmsNorm(const float *x, uint32_t rows,
                           const std::vector<float> &weight, double eps) {
  size_t width = weight.size();
  std::vector<float> y(rows * width);
  for (uint32_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (size_t i = 0; i < width; ++i)
      squares += double(x[r * width + i]) * x[r * width + i];
    auto scale = float(1.0 / std::sqrt(squares / double(width) + eps));
    for (size_t i = 0; i < width; ++i)
      y[r * width + i] = x[r * width + i] * scale * weight[i];
  }
  return y;
}

/// [T, heads, d] to [heads, T, d]
std::vector<float> headsFirst(const std::vector<float> &x, uint32_t tokens,
                              uint32_t heads, uint32_t dim) {
  std::vector<float> y(x.size());
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t h = 0; h < heads; ++h)
      std::memcpy(&y[(size_t(h) * tokens + t) * dim],
                  &x[(size_t(t) * heads + h) * dim], dim * sizeof(float));
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

} // namespace

Llama::Llama(const std::string &dir)
    : config(Config::read(dir)), weights(Weights::read(dir, config)) {
  // Threads meet at the end of every product. Where products are small that
  // costs more than it brings, and much more on a machine that is busy.
  constexpr uint64_t smallLayer = 1 << 22; // weights
  uint64_t layer = uint64_t(config.hidden) *
                   (3ull * config.intermediate +
                    2ull * config.headDim * (config.qHeads + config.kvHeads));
  if (layer < smallLayer)
    openblas_set_num_threads(1);
  for (uint32_t i = 0; i < config.headDim / 2; ++i)
    inverseFrequencies.push_back(
        std::pow(config.ropeTheta, -2.0 * i / config.headDim));
}

/// Halves rotated, as Hugging Face does.
void Llama::rotate(float *vector, uint32_t position) const {
  uint32_t half = config.headDim / 2;
  for (uint32_t i = 0; i < half; ++i) {
    // The angle is rounded to fp32 as the reference framework's is.
    auto angle = float(position) * float(inverseFrequencies[i]);
    float c = std::cos(angle), s = std::sin(angle);
    float a = vector[i], b = vector[i + half];
    vector[i] = a * c - b * s;
    vector[i + half] = b * c + a * s;
  }
}

/// Full causal attention, a block of queries at a time; `out` is [T, Hq, d].
void Llama::attendPrompt(LayerActivations &layer,
                         std::vector<float> &out) const {
  uint32_t tokens = layer.tokens, d = config.headDim;
  uint32_t group = config.qHeads / config.kvHeads;
  auto scale = float(1.0 / std::sqrt(double(d)));
  layer.lse.resize(size_t(config.qHeads) * tokens);
  out.resize(size_t(tokens) * config.qHeads * d);
  constexpr uint32_t block = 128;
  std::vector<float> weights(size_t(block) * tokens);
  std::vector<float> result(size_t(block) * d);
  for (uint32_t h = 0; h < config.qHeads; ++h) {
    const float *q = &layer.q[size_t(h) * tokens * d];
    const float *k = &layer.k[size_t(h / group) * tokens * d];
    const float *v = &layer.v[size_t(h / group) * tokens * d];
    for (uint32_t first = 0; first < tokens; first += block) {
      uint32_t rows = std::min(block, tokens - first), seen = first + rows;
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, int(rows), int(seen),
                  int(d), scale, q + size_t(first) * d, int(d), k, int(d), 0.0f,
                  weights.data(), int(seen));
      for (uint32_t r = 0; r < rows; ++r) {
        float *row = &weights[size_t(r) * seen];
        uint32_t visible = first + r + 1;
        layer.lse[size_t(h) * tokens + first + r] = softmax(row, visible);
        std::fill(row + visible, row + seen, 0.0f);
      }
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, int(rows), int(d),
                  int(seen), 1.0f, weights.data(), int(seen), v, int(d), 0.0f,
                  result.data(), int(d));
      for (uint32_t r = 0; r < rows; ++r)
        std::memcpy(&out[(size_t(first + r) * config.qHeads + h) * d],
                    &result[size_t(r) * d], d * sizeof(float));
    }
  }
}

/// x += down(silu(gate(norm(x))) * up(norm(x)))
void Llama::mlp(const LayerWeights &w, std::vector<float> &x,
                uint32_t rows) const {
  auto normed = rmsNorm(x.data(), rows, w.mlpNorm, config.normEps);
  auto gate =
      project(normed.data(), rows, w.gate, config.intermediate, config.hidden);
  auto up =
      project(normed.data(), rows, w.up, config.intermediate, config.hidden);
  for (size_t i = 0; i < gate.size(); ++i)
    gate[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
  auto down =
      project(gate.data(), rows, w.down, config.hidden, config.intermediate);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] += down[i];
}

std::vector<float> Llama::logits(const float *x) const {
  auto normed = rmsNorm(x, 1, weights.norm, config.normEps);
  const auto &head = config.tiedEmbeddings ? weights.embedding : weights.head;
  return project(normed.data(), 1, head, config.vocab, config.hidden);
}

std::vector<float> Llama::prefill(const std::vector<uint32_t> &tokens,
                                  const LayerHook &hook) const {
  auto count = uint32_t(tokens.size());
  uint32_t hidden = config.hidden, d = config.headDim;
  std::vector<float> x(size_t(count) * hidden); // [T, hidden]
  for (uint32_t t = 0; t < count; ++t)
    std::memcpy(&x[size_t(t) * hidden],
                &weights.embedding[size_t(tokens[t]) * hidden],
                hidden * sizeof(float));
  for (uint32_t l = 0; l < config.layers; ++l) {
    const LayerWeights &w = weights.layers[l];
    auto normed = rmsNorm(x.data(), count, w.attentionNorm, config.normEps);
    auto heads = [&](const std::vector<float> &matrix, uint32_t n) {
      return headsFirst(project(normed.data(), count, matrix, n * d, hidden),
                        count, n, d);
    };
    LayerActivations layer;
    layer.tokens = count;
    layer.q = heads(w.q, config.qHeads);
    layer.kRaw = heads(w.k, config.kvHeads);
    layer.v = heads(w.v, config.kvHeads);
    layer.k = layer.kRaw;
    for (std::vector<float> *rotated : {&layer.q, &layer.k})
      for (size_t row = 0; row < rotated->size() / d; ++row)
        rotate(&(*rotated)[row * d], uint32_t(row % count));
    std::vector<float> attention; // [T, Hq * d]
    attendPrompt(layer, attention);
    hook(l, layer);
    auto projected =
        project(attention.data(), count, w.o, hidden, config.qHeads * d);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] += projected[i];
    mlp(w, x, count);
  }
  return logits(&x[size_t(count - 1) * hidden]);
}

/// One query per head against the rows of its KV head; `out` is [Hq, d].
void Llama::attendCache(const float *q, const RaggedCache &cache,
                        float *out) const {
  uint32_t d = config.headDim, group = config.qHeads / config.kvHeads;
  auto scale = float(1.0 / std::sqrt(double(d)));
  std::vector<float> row(d), logits;
  for (uint32_t g = 0; g < config.kvHeads; ++g) {
    // What is attended to: the rows, or all that the rows represent.
    const std::vector<Member> *members =
        cache.merged() ? &cache.membersOf(g) : nullptr;
    auto rows = members ? uint32_t(members->size()) : cache.rows(g);
    auto rowOf = [&](uint32_t t) { return members ? (*members)[t].row : t; };
    logits.resize(size_t(group) * rows);
    for (uint32_t t = 0; t < rows; ++t) {
      cache.readKey(g, rowOf(t), row.data());
      if (members) {
        rotate(row.data(), (*members)[t].position);
        cblas_sscal(int(d), (*members)[t].norm, row.data(), 1);
      }
      for (uint32_t j = 0; j < group; ++j)
        logits[size_t(j) * rows + t] =
            scale *
            cblas_sdot(int(d), q + (g * group + j) * d, 1, row.data(), 1);
    }
    for (uint32_t j = 0; j < group; ++j) {
      softmax(&logits[size_t(j) * rows], rows);
      std::fill_n(out + (g * group + j) * d, d, 0.0f);
    }
    for (uint32_t t = 0; t < rows; ++t) {
      cache.readValue(g, rowOf(t), row.data());
      for (uint32_t j = 0; j < group; ++j)
        cblas_saxpy(int(d), logits[size_t(j) * rows + t], row.data(), 1,
                    out + (g * group + j) * d, 1);
    }
  }
}

std::vector<float> Llama::decode(uint32_t token, uint32_t position,
                                 std::vector<RaggedCache> &cache) const {
  uint32_t hidden = config.hidden, d = config.headDim;
  const float *embedding = &weights.embedding[size_t(token) * hidden];
  std::vector<float> x(embedding, embedding + hidden);
  for (uint32_t l = 0; l < config.layers; ++l) {
    const LayerWeights &w = weights.layers[l];
    auto normed = rmsNorm(x.data(), 1, w.attentionNorm, config.normEps);
    auto q = project(normed.data(), 1, w.q, config.qHeads * d, hidden);
    auto k = project(normed.data(), 1, w.k, config.kvHeads * d, hidden);
    auto v = project(normed.data(), 1, w.v, config.kvHeads * d, hidden);
    for (uint32_t h = 0; h < config.qHeads; ++h)
      rotate(&q[h * d], position);
    for (uint32_t h = 0; h < config.kvHeads && !cache[l].merged(); ++h)
      rotate(&k[h * d], position);
    cache[l].append(k.data(), v.data(), position);
    std::vector<float> attention(size_t(config.qHeads) * d);
    attendCache(q.data(), cache[l], attention.data());
    auto projected =
        project(attention.data(), 1, w.o, hidden, config.qHeads * d);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] += projected[i];
    mlp(w, x, 1);
  }
  return logits(x.data());
}
