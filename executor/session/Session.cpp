//===- Session.cpp - one sequence that a model reads and continues --------===//

#include "executor/session/Session.h"

#include "executor/session/LayerDump.h"

#include <algorithm>

using namespace kvc::rt;

Session::Session(const Engine &engine, kvc_dtype dtype)
    : engine(engine), cache(engine.makeCache(dtype)) {}

Session::Session(const Session &other)
    : engine(other.engine), cache(other.cache->copy()),
      position(other.position), logits(other.logits) {}

void Session::run(const std::vector<uint32_t> &tokens,
                  const Engine::LayerHook &hook) {
  logits = engine.run(tokens, position, *cache, hook);
  position += uint32_t(tokens.size());
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
  uint32_t layers = engine.config.layers;
  uint32_t steps = (count + chunk - 1) / chunk * layers, done = 0;
  for (uint32_t first = 0; first < count; first += chunk) {
    uint32_t end = std::min(count, first + chunk);
    auto upTo = [&](uint32_t n) {
      return uint32_t(uint64_t(budget) * n / count);
    };
    // A chunk that is due no token keeps its last one: caches have no holes.
    if (compressor)
      compressor->begin(end - first, std::max(1u, upTo(end) - upTo(first)));
    run({tokens.begin() + first, tokens.begin() + end},
        [&](uint32_t index, Activations &layer) {
          if (options.dump)
            options.dump->add(index, layer);
          if (compressor) {
            // Normalised over the chunk, as all that the policy is shown.
            if (first)
              layer.forgetLse();
            compressor->compress(layer, first, *cache);
          } else {
            cache->append(index, layer, first);
          }
          if (options.progress)
            options.progress(++done, steps);
        });
    if (compressor)
      compressor->finish();
  }
}

void Session::readChunks(const std::vector<uint32_t> &tokens,
                         Compressor &compressor, uint32_t budget,
                         const PrefillOptions &options) {
  auto count = uint32_t(tokens.size());
  auto prompt = engine.makeChunkedPrompt(compressor.manifest(), count, *cache);
  uint32_t steps = (count + options.chunk - 1) / options.chunk, done = 0;
  for (uint32_t first = 0; first < count; first += options.chunk) {
    uint32_t end = std::min(count, first + options.chunk);
    run({tokens.begin() + first, tokens.begin() + end},
        [&](uint32_t index, Activations &layer) {
          prompt->add(index, layer);
          cache->append(index, layer, first);
        });
    if (options.progress)
      options.progress(++done, steps);
  }
  compressor.begin(count, budget);
  for (uint32_t l = 0; l < engine.config.layers; ++l)
    compressor.compress(*prompt->take(l, *cache), 0, *cache);
  compressor.finish();
}

void Session::read(const std::vector<uint32_t> &tokens) {
  if (tokens.empty())
    return;
  uint32_t first = position;
  run(tokens, [&](uint32_t index, Activations &layer) {
    cache->append(index, layer, first);
  });
}

std::vector<uint32_t> Session::decode(uint32_t most, bool ignoreEos) {
  const std::vector<uint32_t> &eos = engine.config.eos;
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
