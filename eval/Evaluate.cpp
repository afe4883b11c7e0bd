//===- Evaluate.cpp - what policies cost in quality -----------------------===//

#include "eval/Evaluate.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "support/Stopwatch.h"
#include "eval/Details.h"
#include "eval/Journal.h"
#include "eval/Results.h"
#include "eval/Scores.h"
#include "executor/session/OpenEngine.h"
#include "executor/session/Session.h"
#include "executor/io/MappedFile.h"
#include "executor/io/Safetensors.h"
#include "executor/model/Tokenizer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <set>

using namespace kvc::rt;
using nlohmann::json;

namespace {

/// A policy at a budget. State is carried from layer to layer, so each has a
/// compressor of its own. The full cache has none.
struct Cell {
  std::string policy, budget; // names of the results
  std::unique_ptr<Compressor> compressor;
  std::unique_ptr<CacheCompressor> overTime;
  Budget share;
  double secondsBefore = 0; // of the prompts before

  const PolicyRunner *runner() const {
    return compressor ? static_cast<const PolicyRunner *>(compressor.get())
                      : overTime.get();
  }
  double seconds() const {
    return (compressor ? compressor->seconds() : 0) +
           (overTime ? overTime->seconds() : 0);
  }
  /// Of the prompt at hand.
  double evictSeconds() const { return seconds() - secondsBefore; }
};

/// FNV-1a, to tell whether a run goes on with what it began with.
class Digest {
public:
  Digest &add(const std::string &text) {
    for (char c : text + '\0')
      state = (state ^ uint8_t(c)) * 0x100000001b3;
    return *this;
  }
  std::string text() const { return formatted("{:016x}", state); }

private:
  uint64_t state = 0xcbf29ce484222325;
};

std::string digestOf(const std::vector<Sample> &samples) {
  Digest digest;
  for (const Sample &sample : samples) {
    digest.add(sample.id).add(sample.context).add(sample.question);
    for (const std::string &answer : sample.answers)
      digest.add(answer);
  }
  return digest.text();
}

/// "5%" is a share of the tokens, "1024" a number of them.
Budget parseBudget(const std::string &text) try {
  if (!text.ends_with('%'))
    return Budget::parse(text.empty() ? "0" : text, "");
  std::string digits = text.substr(0, text.size() - 1), places;
  if (size_t dot = digits.find('.'); dot != std::string::npos) {
    places = digits.substr(dot + 1);
    digits.erase(dot);
  }
  // Two places to the right, in decimals: no rounding.
  digits.insert(0, std::string(digits.size() < 3 ? 3 - digits.size() : 0, '0'));
  return Budget::parse("", digits.substr(0, digits.size() - 2) + "." +
                               digits.substr(digits.size() - 2) + places);
} catch (const Failure &) {
  throw fail(KVC_BAD_ARGUMENT,
             "budgets must be shares above 0% and up to 100%, or numbers of "
             "tokens, got '{}'",
             text);
}

class Evaluator {
public:
  explicit Evaluator(const EvalOptions &options)
      : options(options), engine(makeEngine(options.model, options.target)),
        config(engine->config), tokenizer(options.model) {
    tokenizer.checkFits(config.vocab);
    cells.emplace_back();
    cells.back().policy = "full";
    cells.back().budget = "100%";
    std::set<std::string> names{"full"}, budgets;
    for (const std::string &budget : options.budgets)
      if (!budgets.insert(budget).second)
        throw fail(KVC_BAD_ARGUMENT, "budgets must differ, got '{}' twice",
                   budget);
    for (const std::string &policy : options.policies) {
      std::string name = std::filesystem::path(policy).stem().string();
      if (!names.insert(name).second)
        throw fail(KVC_BAD_ARGUMENT,
                   "policies must have different file names, got '{}' twice",
                   name);
      for (const std::string &budget : options.budgets) {
        Cell &cell = cells.emplace_back();
        cell.policy = name;
        cell.budget = budget;
        cell.share = parseBudget(budget);
        PolicyOptions library{policy, options.table, true};
        if (!options.rerank)
          cell.compressor = engine->makeCompressor(library);
        if (options.rerank)
          cell.overTime = engine->makeCacheCompressor(library, {});
        else if (options.every)
          cell.overTime = engine->makeCacheCompressor(
              options.everyPolicy.empty()
                  ? library
                  : PolicyOptions{options.everyPolicy, options.table, true},
              cell.compressor->dtype());
      }
    }
  }

  std::string run() {
    TaskOptions taskOptions = options.task;
    taskOptions.positions = config.maxPositions;
    taskOptions.count = [&](const std::string &text) {
      return uint32_t(tokenizer.encode(text, false).size());
    };
    std::vector<Sample> samples;
    for (const std::string &task : options.tasks)
      for (Sample &sample : loadTask(task, taskOptions))
        samples.push_back(std::move(sample));
    json setup = describe();
    setup["prompts"] = digestOf(samples);
    Journal journal(options.results + ".part", setup);
    size_t modes = size_t(options.aware) + size_t(options.agnostic), done = 0;
    std::map<std::string, uint32_t> detailed;
    for (const char *mode : {"aware", "agnostic"}) {
      bool aware = mode == std::string("aware");
      if (aware ? !options.aware : !options.agnostic)
        continue;
      for (const Sample &sample : samples) {
        std::string key = std::string(mode) + " " + sample.id;
        bool details =
            detailed[mode + sample.task]++ < options.details && !options.chunk;
        if (!journal.has(key))
          journal.add(key, runSample(sample, aware, details));
        if (options.progress)
          options.progress(++done, samples.size() * modes);
      }
    }
    json results;
    try {
      results = summarise(setup, journal.records);
    } catch (const json::exception &) {
      throw fail(KVC_BAD_ARGUMENT,
                 "{}.part must hold what an earlier run wrote; remove it",
                 options.results);
    }
    std::string text =
        results.dump(1, ' ', false, json::error_handler_t::replace);
    writeFiles({{options.results, {text, "\n"}}});
    journal.remove();
    return text;
  }

private:
  const EvalOptions &options;
  std::unique_ptr<Engine> engine;
  const Config &config;
  Tokenizer tokenizer;
  std::deque<Cell> cells;

  /// All that results depend on.
  json describe() const {
    json policies = json::array();
    for (size_t i = 0; i < options.policies.size(); ++i) {
      // The first of the policy's cells; the full cache comes before all.
      const Cell &cell = cells[1 + i * options.budgets.size()];
      std::string library = readText(options.policies[i]);
      policies.push_back({{"name", cell.policy},
                          {"library", Digest().add(library).text()},
                          {"policy", cell.runner()->manifest().policy},
                          {"params", cell.runner()->manifest().params},
                          {"target", engine->target()},
                          {"dtype", dtypeName(cell.runner()->dtype())}});
    }
    json setup = {{"format", 1},
                  {"model",
                   {{"path", options.model},
                    {"architecture", config.architecture},
                    {"layers", config.layers},
                    {"q_heads", config.qHeads},
                    {"kv_heads", config.kvHeads},
                    {"head_dim", config.headDim}}},
                  {"target", engine->target()},
                  {"policies", policies},
                  {"budgets", options.budgets},
                  {"tasks", options.tasks},
                  {"aware", options.aware},
                  {"agnostic", options.agnostic},
                  {"chunk", options.chunk},
                  {"evict_between", options.evictBetween},
                  {"rerank", options.rerank},
                  {"every", options.every},
                  {"table", options.table},
                  {"limit", options.task.limit},
                  {"length", options.task.length},
                  {"seed", options.task.seed},
                  {"details", options.details}};
    if (!options.everyPolicy.empty())
      setup["every_policy"] =
          Digest().add(readText(options.everyPolicy)).text();
    return setup;
  }

  json runSample(const Sample &sample, bool aware, bool details) {
    std::vector<uint32_t> prompt = tokenizer.encode(sample.context, true),
                          question = tokenizer.encode(sample.question, false);
    std::vector<uint32_t> answer =
        tokenizer.encode(sample.answers.front(), false);
    if (aware)
      prompt.insert(prompt.end(), question.begin(), question.end());
    if (prompt.empty() || (answer.empty() && !sample.maxNewTokens))
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: prompt and answer must have at least 1 token, got {} and "
                 "{}",
                 sample.id, prompt.size(), answer.size());
    uint32_t most =
        sample.maxNewTokens ? sample.maxNewTokens : uint32_t(answer.size());
    size_t longest = prompt.size() + (aware ? 0 : question.size()) + most;
    if (longest > config.maxPositions)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: prompt and answer must fit into {} positions, got {}",
                 sample.id, config.maxPositions, longest);
    std::vector<Session> sessions;
    std::vector<json> described(cells.size(), json::array());
    open(sessions);
    double prefillSeconds = options.chunk
                                ? prefillChunks(prompt, sessions)
                                : prefill(prompt, sessions, details, described);

    json results = json::array();
    for (size_t i = 0; i < cells.size(); ++i) {
      Session &session = sessions[i];
      json result = {{"policy", cells[i].policy},
                     {"budget", cells[i].budget},
                     {"cache_bytes", session.cache->usedBytes()}};
      double evictSeconds = cells[i].evictSeconds();
      Stopwatch watch;
      if (!aware)
        session.read(question);
      if (sample.metric == Metric::LogLikelihood)
        result["score"] = likelihood(session, answer);
      else
        decode(session, sample, answer, most, result);
      result["decode_seconds"] =
          watch.seconds() - (cells[i].evictSeconds() - evictSeconds);
      result["evict_seconds"] = cells[i].evictSeconds();
      result["cache_bytes_peak"] = session.peakBytes;
      if (details && cells[i].compressor)
        result["layers"] = described[i];
      results.push_back(std::move(result));
      session.cache.reset();
    }
    return {{"task", sample.task},
            {"mode", aware ? "aware" : "agnostic"},
            {"perplexity", sample.metric == Metric::LogLikelihood},
            {"tokens", prompt.size()},
            {"prefill_seconds", prefillSeconds},
            {"cells", results}};
  }

  /// One session per cell, before the prompt.
  void open(std::vector<Session> &sessions) {
    for (Cell &cell : cells) {
      const PolicyRunner *runner = cell.runner();
      Session &session = sessions.emplace_back(
          *engine, runner ? runner->dtype() : engine->dtype());
      if (cell.overTime)
        session.watch(
            {cell.overTime.get(), cell.share, options.every, options.chunk});
      cell.secondsBefore = cell.seconds();
    }
  }

  /// Each cell reads the prompt in chunks. Returns what that takes without a policy.
  double prefillChunks(const std::vector<uint32_t> &prompt,
                       std::vector<Session> &sessions) {
    PrefillOptions how;
    how.chunk = options.chunk;
    double seconds = 0;
    for (size_t i = 0; i < cells.size(); ++i) {
      Stopwatch watch;
      bool policy = cells[i].runner();
      how.evictBetween = policy && options.evictBetween;
      how.rerank = policy && options.rerank;
      sessions[i].prefill(prompt, cells[i].compressor.get(), cells[i].share,
                          how);
      if (!policy)
        seconds = watch.seconds();
    }
    return seconds;
  }

  /// The prompt is read once for all sessions.
  double prefill(const std::vector<uint32_t> &prompt,
                 std::vector<Session> &sessions, bool details,
                 std::vector<json> &described) {
    auto count = uint32_t(prompt.size());
    for (Cell &cell : cells)
      if (cell.compressor)
        cell.compressor->begin(count, cell.share.of(count));
    auto nothing = engine->makeCache(engine->dtype());
    double detailSeconds = 0;
    Stopwatch watch;
    auto logits = engine->run(
        prompt, 0, *nothing, [&](uint32_t index, Activations &layer) {
          std::optional<MetricsLayer> metrics;
          if (details) {
            LayerActivations onHost = layer.onHost();
            Stopwatch detailWatch;
            metrics = lastQuery(*engine, index, onHost);
            detailSeconds += detailWatch.seconds();
          }
          for (size_t i = 0; i < cells.size(); ++i) {
            Cache &cache = *sessions[i].cache;
            sessions[i].see(index, layer);
            if (!cells[i].compressor) {
              cache.append(index, layer, 0);
              continue;
            }
            Compressor &compressor = *cells[i].compressor;
            KeptSequence kept;
            compressor.compress(layer, 0, cache, details ? &kept : nullptr);
            sessions[i].evicted(index);
            if (!details)
              continue;
            Stopwatch detailWatch;
            described[i].push_back(
                describeLayer(*metrics, kept, compressor.dtype()));
            detailSeconds += detailWatch.seconds();
          }
        });
    for (size_t i = 0; i < cells.size(); ++i) {
      sessions[i].ranTokens(count);
      if (!cells[i].compressor)
        continue;
      cells[i].compressor->finish();
      sessions[i].ranPolicy(cells[i].compressor->manifest());
    }
    // A device works while the host goes on: what is not the prefill's is told
    // by the compressors, not by the time that their calls take.
    double seconds = watch.seconds() - detailSeconds;
    for (Cell &cell : cells)
      seconds -= cell.evictSeconds();
    for (Session &session : sessions) {
      session.position = count;
      session.logits = logits;
    }
    return seconds;
  }

  void decode(Session &session, const Sample &sample,
              const std::vector<uint32_t> &answer, uint32_t most,
              json &result) const {
    std::vector<uint32_t> tokens = session.decode(most, false);
    std::string text = tokenizer.decode(tokens);
    result["prediction"] = text;
    result["score"] = sample.metric == Metric::Exact ? double(tokens == answer)
                                                     : score(sample, text);
  }

  /// Mean log-probability of the answer's tokens, each behind those before it.
  double likelihood(Session &session,
                    const std::vector<uint32_t> &answer) const {
    double sum = 0;
    auto add = [&](const float *logits, uint32_t token) {
      uint32_t vocab = config.vocab;
      float top = *std::max_element(logits, logits + vocab);
      double total = 0;
      for (uint32_t i = 0; i < vocab; ++i)
        total += std::exp(double(logits[i]) - top);
      sum += double(logits[token]) - top - std::log(total);
    };
    add(session.logits.data(), answer.front());
    std::vector<uint32_t> given(answer.begin(), answer.end() - 1);
    if (!given.empty()) {
      // The cache is not asked again, unless a policy runs over it.
      auto rows = options.every ? session.readForLogits(given)
                                : engine->run(
                                      given, session.position, *session.cache,
                                      [](uint32_t, Activations &) {},
                                      Engine::LogitsOf::AllTokens);
      for (size_t t = 0; t < given.size(); ++t)
        add(&rows[t * config.vocab], answer[t + 1]);
    }
    return sum / double(answer.size());
  }
};

} // namespace

std::string kvc::rt::evaluate(const EvalOptions &options) {
  std::vector<std::string> read = options.policies;
  for (const std::string &task : options.tasks)
    read.push_back(fileOfTask(task));
  read.insert(read.end(),
              {options.everyPolicy, options.table, options.task.haystack,
               options.task.squad, options.task.hotpot});
  checkWritable({options.results}, read);
  return formatTable(Evaluator(options).run());
}
