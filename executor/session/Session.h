//===- Session.h - one sequence that a model reads and continues ----------===//

#ifndef KVC_EXECUTOR_SESSION_SESSION_H
#define KVC_EXECUTOR_SESSION_SESSION_H

#include "executor/eviction/Budget.h"
#include "executor/engine/Engine.h"

namespace kvc::rt {

class LayerDump;
class RunDump;

/// How a prompt is read.
struct PrefillOptions {
  uint32_t chunk = 0;        // tokens read at once; 0: all
  bool evictBetween = false; // each chunk is compressed as it has been read
  bool rerank = false;       // behind each chunk what is kept is ranked again
  LayerDump *dump = nullptr; // takes the layers of a prompt read at once
  std::function<void(uint32_t done, uint32_t steps)> progress; // may be empty
};

/// A policy over a cache that grows, and when it runs.
struct PolicyOverTime {
  CacheCompressor *policy;
  Budget budget; // of the true length
  /// Behind the prompt: tokens from one run to the next, the first of them counted
  /// from the prompt's end; 0: no run.
  uint32_t every = 0;
  uint32_t chunk = 0;      // tokens from one run to the next in a prompt, or 0
  RunDump *dump = nullptr; // is told of each run
};

/// A cache, the position behind it, and the logits of the last token. Copies
/// are independent: a prompt is read once and asked many questions.
class Session {
public:
  Session(const Engine &engine, kvc_dtype dtype);
  Session(const Session &other);
  Session(Session &&) = default;

  /// Lets a policy run over the cache: behind chunks of a prompt, every few tokens,
  /// or when it is asked to.
  void watch(const PolicyOverTime &policy);
  /// Keeps the last `queries` queries from now on, for a policy that comes later.
  void keepQueries(uint32_t queries);

  /// For who runs tokens by himself: a layer of them, before it is in the cache, and
  /// a layer from which rows have gone.
  void see(uint32_t layer, const Activations &activations);
  void evicted(uint32_t layer);
  /// And behind all layers of tokens, and of a policy's run over all there are.
  void ranTokens(uint32_t tokens) { unread += tokens; }
  void ranPolicy(const Manifest &manifest);

  /// Reads a prompt from position 0; compresses it unless `compressor` is null.
  /// In chunks without `evictBetween` the cache is whole until all has been
  /// read, then compressed layer by layer, as it would be without chunks. With
  /// it, a chunk sees what earlier chunks have kept, is compressed by itself,
  /// and gets the part of the budget that its length is of the prompt's. With
  /// `rerank` there is no `compressor`: behind a chunk the policy that watches the
  /// cache ranks the rows that are kept and the chunk's, for the budget of the tokens
  /// read so far. Neither has the whole cache at any time.
  void prefill(const std::vector<uint32_t> &tokens, Compressor *compressor,
               const Budget &budget, const PrefillOptions &options = {});
  /// Reads tokens behind the prompt. They are kept, but for what a policy evicts
  /// that runs every few of them.
  void read(const std::vector<uint32_t> &tokens);
  /// The same, for the logits of all of them, [tokens, vocab].
  std::vector<float> readForLogits(const std::vector<uint32_t> &tokens);
  /// Runs the policy that watches the cache, at once.
  void squeeze();
  /// Greedy continuation: at most `most` tokens, ended by an end token, which
  /// is returned too, unless `ignoreEos`.
  std::vector<uint32_t> decode(uint32_t most, bool ignoreEos);

  const Engine &engine;
  std::unique_ptr<Cache> cache;
  uint32_t position = 0;     // of the next token
  std::vector<float> logits; // of the last one; empty before the first
  /// Queries of the newest tokens; null: nobody will ask.
  std::unique_ptr<RecentQueries> queries;
  /// Newest tokens whose queries no policy has had that adds what is new to what rows
  /// carry.
  uint32_t unread = 0;
  /// Tokens behind the prompt that runs of a policy have had.
  uint32_t since = 0;
  /// The most that the cache has held at any time, of the layer that is being read
  /// all new tokens.
  size_t peakBytes = 0;

private:
  PolicyOverTime overTime = {};
  uint32_t sinceRun = 0; // tokens behind the prompt since the policy ran
  uint32_t running =
      0; // new tokens of the run that goes on, where behind the prompt

  void readRanking(const std::vector<uint32_t> &tokens, const Budget &budget,
                   const PrefillOptions &options);
  void readChunks(const std::vector<uint32_t> &tokens, Compressor &compressor,
                  uint32_t budget, const PrefillOptions &options);
  void run(const std::vector<uint32_t> &tokens, const Engine::LayerHook &hook,
           Engine::LogitsOf of = Engine::LogitsOf::LastToken);
  /// Reads tokens into the cache; then the policy runs if `budget` is not 0.
  void step(const std::vector<uint32_t> &tokens, uint32_t budget,
            Engine::LogitsOf of = Engine::LogitsOf::LastToken);
  /// True where the policy over the cache has work with so many tokens.
  bool needsRun(uint32_t length, uint32_t budget) const;
  /// Before the layers of a run of it, with `more` tokens that are still to be read.
  void beginRun(uint32_t length, uint32_t budget, uint32_t more);
  bool behindPrompt = false;
  void finishRun();
  void evict(uint32_t layer);
  /// Reads tokens in pieces that end where the policy runs; behind each `then`.
  void readPieces(const std::vector<uint32_t> &tokens, Engine::LogitsOf of,
                  const std::function<void()> &then);
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_SESSION_SESSION_H
