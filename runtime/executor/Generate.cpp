//===- Generate.cpp - a model, its prefill, the policy in it --------------===//

#include "runtime/executor/Generate.h"

#include "runtime/base/Budget.h"
#include "runtime/base/Failure.h"
#include "runtime/executor/Evictor.h"
#include "runtime/executor/HeadTable.h"
#include "runtime/io/Safetensors.h"
#include "runtime/model/Llama.h"
#include "runtime/model/Tokenizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

using namespace kvc::rt;

namespace {

// Rows left free behind each head, so that decoding appends in place.
constexpr uint32_t slackRows = 64;

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

uint32_t argmax(const std::vector<float> &logits) {
  return uint32_t(std::max_element(logits.begin(), logits.end()) -
                  logits.begin());
}

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

/// The policy of a run: opened for the model, called once per layer.
class PolicyHook {
public:
  PolicyHook(const GenerateOptions &options, const Config &config,
             const Weights &weights, uint32_t tokens)
      : config(config), weights(weights), target(chooseTarget(options.target)),
        evictor(options.policy, target),
        budget(Budget::parse(options.budget, options.keep).of(tokens)) {
    kvc_plan_options plan = {};
    plan.struct_size = sizeof plan;
    plan.head_dim = config.headDim;
    plan.q_heads = config.qHeads;
    plan.kv_heads = config.kvHeads;
    plan.max_batch = 1;
    plan.max_tokens = tokens;
    plan.dtype = chooseType();
    giveTable(evictor, options.table, config.layers, config.qHeads);
    evictor.plan(plan);
    dtype = plan.dtype;
  }

  /// Compresses one layer into `cache`.
  void operator()(const LayerActivations &layer, RaggedCache &cache) {
    auto k = narrow(layer.k.data(), layer.k.size(), dtype);
    auto v = narrow(layer.v.data(), layer.v.size(), dtype);
    auto q = narrow(layer.q.data(), layer.q.size(), dtype);
    LayerSequence sequence;
    sequence.tokens = layer.tokens;
    sequence.k = k.data();
    sequence.v = v.data();
    std::vector<std::byte> kRaw;
    if (evictor.manifest().reads("k_raw")) {
      kRaw = narrow(layer.kRaw.data(), layer.kRaw.size(), dtype);
      sequence.kRaw = kRaw.data();
    }
    sequence.q = q.data();
    sequence.queries = layer.tokens;
    // The attention's log-sum-exp is that of fp32 keys; rounded ones have
    // another, which the policy then computes itself.
    if (dtype == KVC_F32)
      sequence.lse = layer.lse.data();
    sequence.budget = budget;
    std::vector<std::byte> wo;
    if (evictor.manifest().reads("wo")) {
      const std::vector<float> &o = weights.layers[counts.size()].o;
      wo = narrow(o.data(), o.size(), dtype);
      sequence.wo = wo.data();
      sequence.hidden = config.hidden;
    }
    KeptLayer kept = evictor.evict({sequence}, 0, false,
                                   uint32_t(counts.size()), config.layers);
    nanScores |= kept.nanScores;
    const KeptSequence &result = kept.sequences.front();
    cache.assign(result.counts, result.k.data(), result.v.data(), slackRows);
    if (!result.members.counts.empty())
      cache.setMembers(membersOf(result.members));
    counts.push_back(result.counts);
  }

  const Config &config;
  const Weights &weights;
  kvc_target target;
  Evictor evictor;
  const uint32_t budget;
  kvc_dtype dtype = KVC_F32;
  bool nanScores = false;
  std::vector<std::vector<int32_t>> counts;

private:
  static std::vector<std::vector<Member>> membersOf(const MemberTable &table) {
    std::vector<std::vector<Member>> result;
    size_t at = 0;
    for (int32_t count : table.counts) {
      auto &head = result.emplace_back();
      for (int32_t i = 0; i < count; ++i, ++at)
        head.push_back({uint32_t(table.rows[at]), uint32_t(table.positions[at]),
                        table.norms[at]});
    }
    return result;
  }

  /// fp32 if the policy is compiled for it, else the model's own type.
  kvc_dtype chooseType() const {
    for (const Variant &variant : evictor.manifest().variants)
      if (variant.dtype == KVC_F32 && variant.headDim == config.headDim &&
          variant.group * config.kvHeads == config.qHeads)
        return KVC_F32;
    return config.dtype;
  }
};

/// The prefill's activations as an input of `apply`.
class LayerDump {
public:
  LayerDump(const Config &config, const Weights &weights)
      : config(config), weights(weights) {}

  void add(uint32_t index, const LayerActivations &layer) {
    std::string prefix = fmt::format("layers.{}.", index);
    uint64_t tokens = layer.tokens, d = config.headDim;
    auto put = [&](const char *name, std::vector<uint64_t> shape,
                   const std::vector<float> &values) {
      tensors[prefix + name] = TensorData::of("F32", std::move(shape), values);
    };
    put("q", {config.qHeads, tokens, d}, layer.q);
    put("k", {config.kvHeads, tokens, d}, layer.k);
    put("k_raw", {config.kvHeads, tokens, d}, layer.kRaw);
    put("v", {config.kvHeads, tokens, d}, layer.v);
    put("lse", {config.qHeads, tokens}, layer.lse);
    put("wo", {config.hidden, config.qHeads * d}, weights.layers[index].o);
  }
  std::string text() const {
    return formatSafetensors(
        tensors,
        {{"scale", fmt::format("{}", 1.0 / std::sqrt(double(config.headDim)))},
         {"rope_theta", fmt::format("{}", config.ropeTheta)}});
  }

private:
  const Config &config;
  const Weights &weights;
  std::map<std::string, TensorData> tensors;
};

void checkTokens(const std::vector<uint32_t> &tokens, const Config &config,
                 uint32_t more) {
  for (uint32_t token : tokens)
    if (token >= config.vocab)
      throw fail(KVC_BAD_ARGUMENT, "a token must be below {}, got {}",
                 config.vocab, token);
  if (uint64_t(tokens.size()) + more > config.maxPositions)
    throw fail(
        KVC_BAD_ARGUMENT,
        "prompt, question and new tokens must fit into {} positions, got "
        "{} + {}",
        config.maxPositions, tokens.size(), more);
}

} // namespace

GenerateResult kvc::rt::generate(const GenerateOptions &options) {
  Llama model(options.model);
  const Config &config = model.config;
  Tokenizer tokenizer(options.model);
  GenerateResult result;
  result.promptTokens = options.tokens.empty()
                            ? tokenizer.encode(options.prompt, true)
                            : options.tokens;
  if (result.promptTokens.empty())
    throw fail(KVC_BAD_ARGUMENT,
               "the prompt must have at least 1 token, got 0");
  if (!options.question.empty())
    result.questionTokens = tokenizer.encode(options.question, false);
  checkTokens(result.promptTokens, config,
              uint32_t(result.questionTokens.size()) + options.maxNewTokens);
  checkTokens(result.questionTokens, config, 0);
  auto tokens = uint32_t(result.promptTokens.size());

  std::optional<PolicyHook> policy;
  if (!options.policy.empty())
    policy.emplace(options, config, model.weights, tokens);
  std::optional<LayerDump> dump;
  if (!options.dumpLayers.empty())
    dump.emplace(config, model.weights);
  std::vector<RaggedCache> cache(config.layers,
                                 RaggedCache(config.kvHeads, config.headDim,
                                             policy ? policy->dtype : KVC_F32));

  // Prefill: every layer is compressed as soon as its attention is done.
  Clock::time_point start = Clock::now();
  std::vector<float> logits = model.prefill(
      result.promptTokens, [&](uint32_t index, const LayerActivations &layer) {
        Clock::time_point evictStart = Clock::now();
        if (dump)
          dump->add(index, layer);
        if (policy) {
          (*policy)(layer, cache[index]);
        } else {
          std::vector<int32_t> all(config.kvHeads, int32_t(tokens));
          cache[index].assign(
              all, reinterpret_cast<const std::byte *>(layer.k.data()),
              reinterpret_cast<const std::byte *>(layer.v.data()), slackRows);
          result.kept.push_back(all);
        }
        result.evictSeconds += secondsSince(evictStart);
        if (options.progress)
          options.progress(index + 1, config.layers);
      });
  result.prefillSeconds = secondsSince(start) - result.evictSeconds;
  result.top = largest(logits, 5);
  size_t rowBytes =
      config.headDim * 2 * dtypeBytes(policy ? policy->dtype : KVC_F32);
  result.cacheBytesFull =
      size_t(config.layers) * config.kvHeads * tokens * rowBytes;
  for (const RaggedCache &layer : cache)
    result.cacheBytesKept += layer.usedBytes();
  result.target = "host";
  if (policy) {
    result.policy = policy->evictor.manifest().policy;
    result.target = targetName(policy->target);
    result.budget = policy->budget;
    result.kept = policy->counts;
    if (policy->nanScores)
      result.warnings.push_back(
          "some scores are NaN; they rank below every number");
  }
  if (dump)
    writeFiles({{options.dumpLayers, dump->text()}});

  // The question, then greedy decoding, both at true positions.
  start = Clock::now();
  uint32_t position = tokens;
  for (uint32_t token : result.questionTokens)
    logits = model.decode(token, position++, cache);
  while (result.tokens.size() < options.maxNewTokens) {
    uint32_t next = argmax(logits);
    result.tokens.push_back(next);
    bool end = std::find(config.eos.begin(), config.eos.end(), next) !=
               config.eos.end();
    if ((end && !options.ignoreEos) ||
        result.tokens.size() == options.maxNewTokens)
      break;
    logits = model.decode(next, position++, cache);
  }
  result.decodeSeconds = secondsSince(start);
  result.decodedTokens = uint32_t(position - tokens);
  result.text = tokenizer.decode(result.tokens);
  return result;
}

std::string kvc::rt::formatResult(const GenerateResult &r) {
  nlohmann::json top = nlohmann::json::array();
  for (auto [token, logit] : r.top)
    top.push_back({token, logit});
  nlohmann::json object = {{"prompt_tokens", r.promptTokens},
                           {"question_tokens", r.questionTokens},
                           {"tokens", r.tokens},
                           {"text", r.text},
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
