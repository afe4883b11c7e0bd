//===- Generate.cpp - a model, its prefill, the policy in it --------------===//

#include "executor/session/Generate.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "support/Stopwatch.h"
#include "executor/session/CacheFile.h"
#include "executor/session/LayerDump.h"
#include "executor/session/RunDump.h"
#include "executor/io/Safetensors.h"
#include "executor/model/Tokenizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

using namespace kvc::rt;

namespace {

std::vector<std::pair<uint32_t, float>>
largest(const std::vector<float> &logits, size_t count) {
  std::vector<uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](uint32_t a, uint32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b]
                                                    : a < b;
                    });
  std::vector<std::pair<uint32_t, float>> result;
  for (size_t i = 0; i < count; ++i)
    result.emplace_back(order[i], logits[order[i]]);
  return result;
}

void checkTokens(const std::vector<uint32_t> &tokens, const Config &config) {
  for (uint32_t token : tokens)
    if (token >= config.vocab)
      throw fail(KVC_BAD_ARGUMENT, "a token must be below {}, got {}",
                 config.vocab, token);
}

void checkLength(uint64_t tokens, const Config &config, uint32_t more) {
  if (tokens + more > config.maxPositions)
    throw fail(
        KVC_BAD_ARGUMENT,
        "prompt, question and new tokens must fit into {} positions, got "
        "{} + {}",
        config.maxPositions, tokens, more);
}

} // namespace

namespace {

/// The policy of a command, on a prompt and over the cache that follows.
struct Policies {
  Policies(const GenerateOptions &options, const Engine &engine)
      : engine(engine), options(options) {
    if (options.policy.policy.empty())
      return;
    budget = Budget::parse(options.budget, options.keep);
    if (!options.rerank && options.loadCache.empty())
      prompt = engine.makeCompressor(options.policy);
    if (options.rerank)
      makeCache({});
    else if (options.every && prompt)
      makeCache(prompt->dtype());
  }

  void makeCache(std::optional<kvc_dtype> dtype) {
    const PolicyOptions &later = options.later;
    cache = engine.makeCacheCompressor(
        later.policy.empty() ? options.policy : later, dtype);
    if (!options.dumpRuns.empty())
      dump.emplace(engine, cache->manifest(), options.dumpRuns);
  }
  /// The type of a new cache.
  kvc_dtype dtype() const {
    return prompt ? prompt->dtype() : cache ? cache->dtype() : engine.dtype();
  }
  void watch(Session &session) {
    if (cache)
      session.watch({cache.get(), budget, options.every, options.chunk,
                     dump ? &*dump : nullptr});
    else if (prompt && !options.saveCache.empty())
      // For who loads the cache to make it smaller.
      if (uint32_t queries = prompt->manifest().oldQueries();
          queries && queries != KVC_ALL_QUERIES)
        session.keepQueries(queries);
  }
  std::vector<PolicyRunner *> all() const {
    std::vector<PolicyRunner *> runners;
    if (prompt)
      runners.push_back(prompt.get());
    if (cache)
      runners.push_back(cache.get());
    return runners;
  }
  double seconds() const {
    double sum = 0;
    for (const PolicyRunner *runner : all())
      sum += runner->seconds();
    return sum;
  }
  bool nanScores() const {
    bool nan = false;
    for (const PolicyRunner *runner : all())
      nan |= runner->nanScores();
    return nan;
  }

  const Engine &engine;
  const GenerateOptions &options;
  std::unique_ptr<Compressor> prompt;
  std::unique_ptr<CacheCompressor> cache;
  Budget budget;
  std::optional<RunDump> dump;
};

std::vector<std::vector<int32_t>> rowsOf(const Session &session) {
  const Config &config = session.engine.config;
  std::vector<std::vector<int32_t>> rows(config.layers);
  for (uint32_t l = 0; l < config.layers; ++l)
    for (uint32_t h = 0; h < config.kvHeads; ++h)
      rows[l].push_back(int32_t(session.cache->rows(l, h)));
  return rows;
}

} // namespace

/// The prompt read into a session, compressed if there is a policy.
static Session readPrompt(const GenerateOptions &options, const Engine &engine,
                          Policies &policies, GenerateResult &result) {
  std::optional<LayerDump> dump;
  PrefillOptions prefill;
  prefill.chunk = options.chunk;
  prefill.evictBetween = options.evictBetween;
  prefill.rerank = options.rerank;
  prefill.progress = options.progress;
  if (!options.dumpLayers.empty())
    prefill.dump = &dump.emplace(engine);
  Session session(engine, policies.dtype());
  policies.watch(session);
  if (!options.policy.policy.empty())
    result.budget = policies.budget.of(uint32_t(result.promptTokens.size()));
  session.prefill(result.promptTokens, policies.prompt.get(), policies.budget,
                  prefill);
  if (dump)
    dump->write(options.dumpLayers);
  return session;
}

/// A saved cache, made smaller if there is a policy.
static Session readCache(const GenerateOptions &options, const Engine &engine,
                         Policies &policies, GenerateResult &result) {
  Session session = loadCache(engine, options.loadCache);
  if (options.policy.policy.empty())
    return session;
  policies.makeCache(session.cache->dtype);
  policies.watch(session);
  result.budget = policies.budget.of(session.position);
  session.squeeze();
  return session;
}

GenerateResult kvc::rt::generate(const GenerateOptions &options) {
  std::unique_ptr<Engine> engine = makeEngine(options.model, options.target);
  const Config &config = engine->config;
  // Token ids go in and out without a tokenizer.
  std::optional<Tokenizer> tokenizer;
  if ((options.tokens.empty() && options.loadCache.empty()) ||
      !options.questions.empty() ||
      std::filesystem::exists(options.model + "/tokenizer.json")) {
    tokenizer.emplace(options.model);
    tokenizer->checkFits(config.vocab);
  }
  GenerateResult result;
  result.target = engine->target();
  for (const std::string &question : options.questions)
    result.answers.emplace_back().question = tokenizer->encode(question, false);
  uint32_t longest = 0;
  for (const Answer &answer : result.answers) {
    checkTokens(answer.question, config);
    checkLength(answer.question.size(), config, 0);
    longest = std::max(longest, uint32_t(answer.question.size()));
  }
  if (result.answers.empty())
    result.answers.emplace_back();
  longest += options.maxNewTokens;

  Policies policies(options, *engine);
  std::optional<Session> session;
  Stopwatch prefillWatch;
  if (options.loadCache.empty()) {
    result.promptTokens = options.tokens.empty()
                              ? tokenizer->encode(options.prompt, true)
                              : options.tokens;
    if (result.promptTokens.empty())
      throw fail(KVC_BAD_ARGUMENT,
                 "the prompt must have at least 1 token, got 0");
    checkTokens(result.promptTokens, config);
    checkLength(result.promptTokens.size(), config, longest);
    session.emplace(readPrompt(options, *engine, policies, result));
  } else {
    session.emplace(readCache(options, *engine, policies, result));
    checkLength(session->position, config, longest);
  }
  double evicting = policies.seconds();
  result.prefillSeconds = prefillWatch.seconds() - evicting;
  for (const PolicyRunner *runner : policies.all())
    result.policy = runner->manifest().policy;
  result.top = largest(session->logits, 5);
  size_t rowBytes = config.headDim * 2 * dtypeBytes(session->cache->dtype);
  result.cacheBytesFull =
      size_t(config.layers) * config.kvHeads * session->position * rowBytes;
  result.cacheBytesKept = session->cache->usedBytes();
  result.kept = rowsOf(*session);
  if (!options.saveCache.empty())
    saveCache(*session, options.saveCache);

  // Each question, then greedy decoding, at true positions.
  Stopwatch watch;
  for (Answer &answer : result.answers) {
    bool last = &answer == &result.answers.back();
    Session own = last ? std::move(*session) : *session;
    uint32_t first = own.position;
    own.read(answer.question);
    answer.tokens = own.decode(options.maxNewTokens, options.ignoreEos);
    if (tokenizer)
      answer.text = tokenizer->decode(answer.tokens);
    result.decodedTokens += own.position - first;
    answer.kept = rowsOf(own);
    result.cacheBytesPeak = std::max(result.cacheBytesPeak, own.peakBytes);
  }
  result.evictSeconds = policies.seconds();
  result.decodeSeconds = watch.seconds() - (result.evictSeconds - evicting);
  if (policies.nanScores())
    result.warnings.push_back(
        "some scores are NaN; they rank below every number");
  if (policies.dump)
    policies.dump->write();
  return result;
}

std::string kvc::rt::formatResult(const GenerateResult &r) {
  nlohmann::json top = nlohmann::json::array();
  for (auto [token, logit] : r.top)
    top.push_back({token, logit});
  nlohmann::json answers = nlohmann::json::array();
  for (const Answer &answer : r.answers)
    answers.push_back({{"question_tokens", answer.question},
                       {"tokens", answer.tokens},
                       {"text", answer.text},
                       {"kept", answer.kept}});
  nlohmann::json object = {{"prompt_tokens", r.promptTokens},
                           {"question_tokens", r.answers[0].question},
                           {"tokens", r.answers[0].tokens},
                           {"text", r.answers[0].text},
                           {"answers", answers},
                           {"top", top},
                           {"policy", r.policy},
                           {"target", r.target},
                           {"budget", r.budget},
                           {"kept", r.kept},
                           {"cache_bytes_full", r.cacheBytesFull},
                           {"cache_bytes_kept", r.cacheBytesKept},
                           {"cache_bytes_peak", r.cacheBytesPeak},
                           {"seconds",
                            {{"prefill", r.prefillSeconds},
                             {"evict", r.evictSeconds},
                             {"decode", r.decodeSeconds}}}};
  // A text cut inside a character is no UTF-8; say so with U+FFFD.
  return object.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}
