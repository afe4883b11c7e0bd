//===- Session.cpp - one sequence that a model reads and continues --------===//

#include "runtime/executor/Session.h"

#include "runtime/base/Stopwatch.h"
#include "runtime/executor/LayerDump.h"

#include <algorithm>
#include <cstring>

using namespace kvc::rt;

namespace {

/// The last `count` of `tokens` rows of every head; `width` numbers each.
void appendTail(std::vector<std::vector<float>> &heads,
                const std::vector<float> &values, uint32_t tokens, size_t width,
                size_t most) {
  most = std::min(most, SIZE_MAX / width);
  heads.resize(values.size() / (tokens * width));
  for (size_t h = 0; h < heads.size(); ++h) {
    auto first = values.begin() + ptrdiff_t(h * tokens * width);
    heads[h].insert(heads[h].end(), first, first + ptrdiff_t(tokens * width));
    if (heads[h].size() > most * width)
      heads[h].erase(heads[h].begin(),
                     heads[h].end() - ptrdiff_t(most * width));
  }
}

std::vector<float> joined(const std::vector<std::vector<float>> &heads) {
  std::vector<float> all;
  for (const std::vector<float> &head : heads)
    all.insert(all.end(), head.begin(), head.end());
  return all;
}

/// What a policy needs of a layer beside the cache, while chunks are read.
struct Tail {
  std::vector<std::vector<float>> q, lse, kRaw; // [heads][rows * width]

  void add(const LayerActivations &layer, const Config &config,
           const Manifest &manifest) {
    size_t most = manifest.queries; // all is more than any prompt has
    appendTail(q, layer.q, layer.tokens, config.headDim, most);
    appendTail(lse, layer.lse, layer.tokens, 1, most);
    if (manifest.reads("k_raw"))
      appendTail(kRaw, layer.kRaw, layer.tokens, config.headDim, SIZE_MAX);
  }
};

} // namespace

Session::Session(const Transformer &model, kvc_dtype dtype)
    : model(model),
      cache(model.config.layers,
            RaggedCache(model.config.kvHeads, model.config.headDim, dtype)) {}

std::vector<float> Session::readAll(const std::vector<uint32_t> &tokens,
                                    const Transformer::LayerHook &hook) {
  std::vector<float> output = model.run(tokens, position, cache, hook);
  position += uint32_t(tokens.size());
  return output;
}

void Session::prefill(const std::vector<uint32_t> &tokens,
                      Compressor *compressor, const Budget &share,
                      const PrefillOptions &options) {
  auto count = uint32_t(tokens.size());
  uint32_t budget = compressor ? share.of(count) : 0;
  if (options.chunk && options.chunk < count && compressor &&
      !options.evictBetween)
    return readChunks(tokens, *compressor, budget, options);
  uint32_t chunk = options.chunk ? std::min(options.chunk, count) : count;
  uint32_t layers = model.config.layers;
  uint32_t steps = (count + chunk - 1) / chunk * layers, done = 0;
  for (uint32_t first = 0; first < count; first += chunk) {
    uint32_t end = std::min(count, first + chunk);
    auto upTo = [&](uint32_t n) {
      return uint32_t(uint64_t(budget) * n / count);
    };
    // A chunk that is due no token keeps its last one: caches have no holes.
    if (compressor)
      compressor->begin(end - first, std::max(1u, upTo(end) - upTo(first)));
    auto output =
        readAll({tokens.begin() + first, tokens.begin() + end},
                [&](uint32_t index, LayerActivations &layer) {
                  if (options.dump)
                    options.dump->add(index, layer);
                  Stopwatch watch;
                  if (compressor) {
                    // Normalised over the chunk, as all that the policy is
                    // shown.
                    if (first)
                      layer.lse.clear();
                    compressor->compress(layer, first, cache[index]);
                  } else {
                    cache[index].append(layer.k.data(), layer.v.data(),
                                        layer.tokens, first);
                  }
                  evictSeconds += watch.seconds();
                  if (options.progress)
                    options.progress(++done, steps);
                });
    logits = model.logits(&output[(end - first - 1) * model.config.hidden]);
  }
}

void Session::readChunks(const std::vector<uint32_t> &tokens,
                         Compressor &compressor, uint32_t budget,
                         const PrefillOptions &options) {
  const Config &config = model.config;
  auto count = uint32_t(tokens.size());
  std::vector<Tail> tails(config.layers);
  uint32_t steps = (count + options.chunk - 1) / options.chunk, done = 0;
  for (uint32_t first = 0; first < count; first += options.chunk) {
    uint32_t end = std::min(count, first + options.chunk);
    auto output =
        readAll({tokens.begin() + first, tokens.begin() + end},
                [&](uint32_t index, LayerActivations &layer) {
                  tails[index].add(layer, config, compressor.manifest());
                  cache[index].append(layer.k.data(), layer.v.data(),
                                      layer.tokens, first);
                });
    logits = model.logits(&output[(end - first - 1) * config.hidden]);
    if (options.progress)
      options.progress(++done, steps);
  }
  Stopwatch watch;
  compressor.begin(count, budget);
  for (uint32_t l = 0; l < config.layers; ++l) {
    LayerActivations layer;
    layer.tokens = count;
    layer.q = joined(tails[l].q);
    layer.lse = joined(tails[l].lse);
    layer.kRaw = joined(tails[l].kRaw);
    std::vector<float> k, v;
    for (uint32_t h = 0; h < config.kvHeads; ++h) {
      auto rows = cache[l].attended(h, model.rope, k, v);
      size_t numbers = rows.count * config.headDim;
      layer.k.insert(layer.k.end(), rows.k, rows.k + numbers);
      layer.v.insert(layer.v.end(), rows.v, rows.v + numbers);
    }
    tails[l] = {};
    cache[l].clear();
    compressor.compress(layer, 0, cache[l]);
  }
  evictSeconds += watch.seconds();
}

void Session::read(const std::vector<uint32_t> &tokens) {
  if (tokens.empty())
    return;
  uint32_t first = position;
  auto output = readAll(tokens, [&](uint32_t index, LayerActivations &layer) {
    // A merged cache turns its keys by itself.
    const auto &k = cache[index].merged() ? layer.kRaw : layer.k;
    cache[index].append(k.data(), layer.v.data(), layer.tokens, first);
  });
  logits = model.logits(&output[(tokens.size() - 1) * model.config.hidden]);
}

std::vector<uint32_t> Session::decode(uint32_t most, bool ignoreEos) {
  const std::vector<uint32_t> &eos = model.config.eos;
  std::vector<uint32_t> tokens;
  while (tokens.size() < most) {
    auto next = uint32_t(std::max_element(logits.begin(), logits.end()) -
                         logits.begin());
    tokens.push_back(next);
    bool end = std::find(eos.begin(), eos.end(), next) != eos.end();
    if ((end && !ignoreEos) || tokens.size() == most)
      break;
    read({next});
  }
  return tokens;
}

size_t Session::cacheBytes() const {
  size_t bytes = 0;
  for (const RaggedCache &layer : cache)
    bytes += layer.usedBytes();
  return bytes;
}
