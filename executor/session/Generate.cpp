//===- Generate.cpp - a model, its prefill, the policy in it --------------===//

#include "executor/session/Generate.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "support/Stopwatch.h"
#include "executor/session/CacheFile.h"
#include "executor/session/LayerDump.h"
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

/// The prompt read into a session, compressed if there is a policy.
static Session readPrompt(const GenerateOptions &options, const Engine &engine,
                          GenerateResult &result) {
  std::unique_ptr<Compressor> policy;
  if (!options.policy.policy.empty())
    policy = engine.makeCompressor(options.policy);
  std::optional<LayerDump> dump;
  PrefillOptions prefill;
  prefill.chunk = options.chunk;
  prefill.evictBetween = options.evictBetween;
  prefill.progress = options.progress;
  if (!options.dumpLayers.empty())
    prefill.dump = &dump.emplace(engine);
  Budget budget;
  auto tokens = uint32_t(result.promptTokens.size());
  if (policy) {
    budget = Budget::parse(options.budget, options.keep);
    result.budget = budget.of(tokens);
    result.policy = policy->manifest().policy;
  }
  Session session(engine, policy ? policy->dtype() : engine.dtype());
  Stopwatch watch;
  session.prefill(result.promptTokens, policy.get(), budget, prefill);
  result.evictSeconds = policy ? policy->seconds() : 0;
  result.prefillSeconds = watch.seconds() - result.evictSeconds;
  if (policy && policy->nanScores())
    result.warnings.push_back(
        "some scores are NaN; they rank below every number");
  if (dump)
    writeFiles({{options.dumpLayers, dump->text()}});
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
    result.answers.push_back({tokenizer->encode(question, false), {}, ""});
  uint32_t longest = 0;
  for (const Answer &answer : result.answers) {
    checkTokens(answer.question, config);
    checkLength(answer.question.size(), config, 0);
    longest = std::max(longest, uint32_t(answer.question.size()));
  }
  if (result.answers.empty())
    result.answers.emplace_back();
  longest += options.maxNewTokens;

  std::optional<Session> session;
  if (options.loadCache.empty()) {
    result.promptTokens = options.tokens.empty()
                              ? tokenizer->encode(options.prompt, true)
                              : options.tokens;
    if (result.promptTokens.empty())
      throw fail(KVC_BAD_ARGUMENT,
                 "the prompt must have at least 1 token, got 0");
    checkTokens(result.promptTokens, config);
    checkLength(result.promptTokens.size(), config, longest);
    session.emplace(readPrompt(options, *engine, result));
  } else {
    session.emplace(loadCache(*engine, options.loadCache));
    checkLength(session->position, config, longest);
  }
  result.top = largest(session->logits, 5);
  size_t rowBytes = config.headDim * 2 * dtypeBytes(session->cache->dtype);
  result.cacheBytesFull =
      size_t(config.layers) * config.kvHeads * session->position * rowBytes;
  result.cacheBytesKept = session->cache->usedBytes();
  for (uint32_t l = 0; l < config.layers; ++l) {
    auto &counts = result.kept.emplace_back();
    for (uint32_t h = 0; h < config.kvHeads; ++h)
      counts.push_back(int32_t(session->cache->rows(l, h)));
  }
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
  }
  result.decodeSeconds = watch.seconds();
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
                       {"text", answer.text}});
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
                           {"seconds",
                            {{"prefill", r.prefillSeconds},
                             {"evict", r.evictSeconds},
                             {"decode", r.decodeSeconds}}}};
  // A text cut inside a character is no UTF-8; say so with U+FFFD.
  return object.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}
