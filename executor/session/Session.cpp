//===- Session.cpp - one sequence that a model reads and continues --------===//

#include "executor/session/Session.h"

#include "runtime/base/DType.h"
#include "executor/session/LayerDump.h"
#include "executor/session/RunDump.h"

#include <algorithm>

using namespace kvc::rt;

Session::Session(const Engine &engine, kvc_dtype dtype)
    : engine(engine), cache(engine.makeCache(dtype)) {}

Session::Session(const Session &other)
    : engine(other.engine), cache(other.cache->copy()),
      position(other.position), logits(other.logits),
      queries(other.queries ? other.queries->copy() : nullptr),
      unread(other.unread), since(other.since), peakBytes(other.peakBytes),
      overTime(other.overTime), sinceRun(other.sinceRun),
      behindPrompt(other.behindPrompt) {}

void Session::watch(const PolicyOverTime &policy) {
  overTime = policy;
  // All that came since the policy last ran, too.
  const Manifest &manifest = policy.policy->manifest();
  if (manifest.queries)
    keepQueries(
        std::max({manifest.oldQueries(), policy.every, policy.chunk, 1u}));
}

void Session::keepQueries(uint32_t most) {
  if (queries && queries->most >= most)
    return;
  auto more = engine.makeRecentQueries(most);
  for (uint32_t l = 0; queries && l < engine.config.layers; ++l)
    more->restore(l, queries->contents(l));
  queries = std::move(more);
}

void Session::see(uint32_t layer, const Activations &activations) {
  const Config &config = engine.config;
  size_t more = size_t(activations.tokens) * config.kvHeads * config.headDim *
                2 * dtypeBytes(cache->dtype);
  peakBytes = std::max(peakBytes, cache->usedBytes() + more);
  if (queries)
    queries->add(layer, activations);
}

void Session::evicted(uint32_t layer) {
  if (queries)
    queries->evicted(layer);
}

void Session::ranPolicy(const Manifest &manifest) {
  if (manifest.leastQueries || !manifest.states.empty())
    unread = 0;
}

void Session::run(const std::vector<uint32_t> &tokens,
                  const Engine::LayerHook &hook, Engine::LogitsOf of) {
  logits = engine.run(
      tokens, position, *cache,
      [&](uint32_t index, Activations &layer) {
        see(index, layer);
        hook(index, layer);
      },
      of);
  position += uint32_t(tokens.size());
  ranTokens(uint32_t(tokens.size()));
}

bool Session::needsRun(uint32_t length, uint32_t budget) const {
  // As many rows as that there cannot be more; but rows may carry numbers.
  return budget && (length > budget || overTime.policy->carries());
}

void Session::step(const std::vector<uint32_t> &tokens, uint32_t budget,
                   Engine::LogitsOf of) {
  uint32_t first = position, length = first + uint32_t(tokens.size());
  bool runs = needsRun(length, budget);
  if (runs)
    beginRun(length, budget, uint32_t(tokens.size()));
  run(
      tokens,
      [&](uint32_t index, Activations &layer) {
        cache->append(index, layer, first);
        if (runs)
          evict(index);
      },
      of);
  if (runs)
    finishRun();
}

void Session::beginRun(uint32_t length, uint32_t budget, uint32_t more) {
  overTime.policy->begin(length, budget, unread + more, since);
  if (overTime.dump)
    overTime.dump->begin(length, budget, unread + more, since);
  running = behindPrompt ? unread + more : 0;
}

void Session::finishRun() {
  overTime.policy->finish();
  since += running;
  ranPolicy(overTime.policy->manifest());
}

void Session::evict(uint32_t layer) {
  if (!overTime.dump)
    return overTime.policy->compress(*cache, queries.get());
  overTime.dump->addRows(layer, *cache, queries.get());
  KeptSequence kept;
  overTime.policy->compress(*cache, queries.get(), &kept);
  overTime.dump->addKept(layer, kept);
}

void Session::squeeze() {
  uint32_t budget = overTime.budget.of(position);
  if (!needsRun(position, budget))
    return;
  beginRun(position, budget, 0);
  for (uint32_t l = 0; l < engine.config.layers; ++l)
    evict(l);
  finishRun();
}

void Session::prefill(const std::vector<uint32_t> &tokens,
                      Compressor *compressor, const Budget &share,
                      const PrefillOptions &options) {
  auto count = uint32_t(tokens.size());
  if (options.rerank)
    return readRanking(tokens, share, options);
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
            evicted(index);
          } else {
            cache->append(index, layer, first);
          }
          if (options.progress)
            options.progress(++done, steps);
        });
    if (compressor) {
      compressor->finish();
      ranPolicy(compressor->manifest());
    }
  }
}

void Session::readRanking(const std::vector<uint32_t> &tokens,
                          const Budget &share, const PrefillOptions &options) {
  auto count = uint32_t(tokens.size());
  share.of(count); // refused now where it would be behind the last chunk
  uint32_t chunk = options.chunk ? std::min(options.chunk, count) : count;
  if (overTime.policy->manifest().queries)
    keepQueries(chunk);
  uint32_t steps = (count + chunk - 1) / chunk, done = 0;
  for (uint32_t first = 0; first < count; first += chunk) {
    uint32_t end = std::min(count, first + chunk);
    step({tokens.begin() + first, tokens.begin() + end}, share.ofPart(end));
    if (options.progress)
      options.progress(++done, steps);
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
  for (uint32_t l = 0; l < engine.config.layers; ++l) {
    compressor.compress(*prompt->take(l, *cache), 0, *cache);
    evicted(l);
  }
  compressor.finish();
  ranPolicy(compressor.manifest());
}

void Session::readPieces(const std::vector<uint32_t> &tokens,
                         Engine::LogitsOf of,
                         const std::function<void()> &then) {
  uint32_t every = overTime.policy ? overTime.every : 0;
  behindPrompt = true;
  for (size_t first = 0; first < tokens.size();) {
    size_t count = tokens.size() - first;
    uint32_t budget = 0;
    if (every) {
      count = std::min<size_t>(count, every - sinceRun);
      sinceRun += uint32_t(count);
      if (sinceRun == every) {
        budget = overTime.budget.of(position + uint32_t(count));
        sinceRun = 0;
      }
    }
    auto begin = tokens.begin() + ptrdiff_t(first);
    step({begin, begin + ptrdiff_t(count)}, budget, of);
    then();
    first += count;
  }
}

void Session::read(const std::vector<uint32_t> &tokens) {
  readPieces(tokens, Engine::LogitsOf::LastToken, [] {});
}

std::vector<float> Session::readForLogits(const std::vector<uint32_t> &tokens) {
  std::vector<float> all;
  readPieces(tokens, Engine::LogitsOf::AllTokens,
             [&] { all.insert(all.end(), logits.begin(), logits.end()); });
  if (!all.empty())
    logits.assign(all.end() - engine.config.vocab, all.end());
  return all;
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
