//===- Engine.h - a model on a device -------------------------------------===//
//
// What reading, compressing and decoding a sequence need of the place where the
// model lives. Two places: the host (HostEngine, plain and in fp32) and an
// NVIDIA GPU (gpu/GpuEngine, in the model's own type). Each runs its layers and
// its policies beside its weights and hands nothing back in between.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_ENGINE_ENGINE_H
#define KVC_EXECUTOR_ENGINE_ENGINE_H

#include "executor/eviction/Evictor.h"
#include "executor/model/Transformer.h"

#include <functional>
#include <memory>
#include <optional>

namespace kvc::rt {

/// What a layer's attention leaves behind of the tokens that were run.
class Activations {
public:
  explicit Activations(uint32_t tokens) : tokens(tokens) {}
  virtual ~Activations() = default;

  /// A copy in the host's memory.
  virtual LayerActivations onHost() const = 0;
  /// The log-sum-exp is over more than a policy is about to be shown.
  virtual void forgetLse() = 0;

  const uint32_t tokens;
};

/// Keys and values of one sequence, of all layers.
class Cache {
public:
  explicit Cache(kvc_dtype dtype) : dtype(dtype) {}
  virtual ~Cache() = default;

  virtual std::unique_ptr<Cache> copy() const = 0;
  /// Appends all tokens of a layer that has just been run at `position`.
  virtual void append(uint32_t layer, const Activations &activations,
                      uint32_t position) = 0;
  /// What a layer holds, and a layer that holds it. `restore` is for empty
  /// ones.
  virtual RaggedCache::Contents contents(uint32_t layer) const = 0;
  virtual void restore(uint32_t layer,
                       const RaggedCache::Contents &contents) = 0;
  virtual uint32_t rows(uint32_t layer, uint32_t head) const = 0;
  /// Bytes of the rows in use, and of the members of merged ones.
  virtual size_t usedBytes() const = 0;

  const kvc_dtype dtype;
};

struct PolicyOptions {
  std::string policy;       // library of kvc-opt
  std::string table;        // importance of heads, for policies that read it
  bool sharesTable = false; // it may be for other policies only
};

/// A compiled policy beside a model: compresses one layer after the other, from 0.
class PolicyRunner {
public:
  virtual ~PolicyRunner() = default;

  /// Behind the last layer: until then the cache may lack what was kept.
  virtual void finish() = 0;

  virtual const Manifest &manifest() const = 0;
  /// The type of the cache.
  virtual kvc_dtype dtype() const = 0;
  /// True where some score was NaN.
  virtual bool nanScores() const = 0;
  /// Time the device has spent on compressing so far.
  virtual double seconds() const = 0;
};

/// A policy inside a model's prefill: layers are compressed as their attention is
/// done.
class Compressor : public PolicyRunner {
public:
  /// Before the layers of `tokens` tokens, of which each KV head keeps `budget`
  /// on average.
  virtual void begin(uint32_t tokens, uint32_t budget) = 0;
  /// Appends what the policy keeps of a layer to `cache`. The tokens stand at
  /// `position` and after. Layers must come in order, from 0. `kept`, unless
  /// null, is told what that was; asking costs a wait for the device.
  virtual void compress(const Activations &activations, uint32_t position,
                        Cache &cache, KeptSequence *kept = nullptr) = 0;
};

/// The queries of a sequence's newest tokens, of all layers: what a policy reads of
/// tokens that were run before a cache is compressed again.
class RecentQueries {
public:
  /// The last `most` tokens' are kept; KVC_ALL_QUERIES: all.
  explicit RecentQueries(uint32_t most) : most(most) {}
  virtual ~RecentQueries() = default;

  virtual std::unique_ptr<RecentQueries> copy() const = 0;
  /// A layer of the tokens that have just been run.
  virtual void add(uint32_t layer, const Activations &activations) = 0;
  /// Rows have gone from the layer's cache: a log-sum-exp from before is over more
  /// than there is.
  virtual void evicted(uint32_t layer) = 0;
  /// How many there are.
  virtual uint32_t count(uint32_t layer) const = 0;
  /// The last `rows` on the host, [Hq, rows, d], and a layer that holds them;
  /// `restore` is for empty ones.
  virtual std::vector<float> last(uint32_t layer, uint32_t rows) const = 0;
  std::vector<float> contents(uint32_t layer) const {
    return last(layer, count(layer));
  }
  /// Their log-sum-exp on the host, [Hq, rows]; empty where some of them is from
  /// before the layer's last eviction.
  virtual std::vector<float> lse(uint32_t layer, uint32_t rows) const = 0;
  virtual void restore(uint32_t layer, const std::vector<float> &q) = 0;

  const uint32_t most;
};

/// A policy over a cache of rows: what earlier runs have kept of a sequence, and the
/// tokens that came since.
class CacheCompressor : public PolicyRunner {
public:
  /// Before the layers of a sequence of `length` tokens, of which each KV head
  /// keeps `budget` rows on average. No earlier run has had the queries of the last
  /// `newTokens` of them; earlier runs have had `since` tokens behind the prompt.
  virtual void begin(uint32_t length, uint32_t budget, uint32_t newTokens,
                     uint32_t since) = 0;
  /// True where rows carry numbers from run to run, which are computed in every run,
  /// also where all rows are kept.
  bool carries() const { return !manifest().states.empty(); }
  /// Evicts rows from a layer of `cache`, whose newest tokens' queries are
  /// `queries`, null where the policy reads none. Layers must come in order, from 0. `kept` as in Compressor.
  virtual void compress(Cache &cache, RecentQueries *queries,
                        KeptSequence *kept = nullptr) = 0;

protected:
  /// How many of the last queries a run reads.
  uint32_t queriesRead(uint32_t length, uint32_t newTokens) const;
  /// Throws Failure where the policy has ranked rows by queries that are not there:
  /// `have` of the last `wanted` tokens' of `length`; `whole` says that no row has
  /// gone.
  void checkQueries(uint32_t have, uint32_t wanted, uint32_t length,
                    bool whole) const;
  /// Throws Failure where the policy reads what no cache has.
  void checkInputs() const;
  /// True where the policy is for caches of merged rows.
  bool isForMerged() const;
  /// Throws Failure where a cache is merged and the policy not for such, or the other
  /// way round.
  void checkMerged(bool merged) const;
};

/// What a policy reads of a prompt beside the cache, gathered while the prompt
/// is read in chunks that are all kept.
class ChunkedPrompt {
public:
  virtual ~ChunkedPrompt() = default;
  /// A layer of the next chunk; it is in the cache, too.
  virtual void add(uint32_t layer, const Activations &activations) = 0;
  /// The layer as if it had been read at once. Takes it out of the cache.
  virtual std::unique_ptr<Activations> take(uint32_t layer, Cache &cache) = 0;
};

class Engine {
public:
  explicit Engine(const Config &config) : config(config) {}
  virtual ~Engine() = default;

  /// "host" or "cuda".
  virtual const char *target() const = 0;
  /// The type of a cache that no policy has made.
  virtual kvc_dtype dtype() const = 0;
  virtual std::unique_ptr<Cache> makeCache(kvc_dtype dtype) const = 0;
  /// Throws Failure, also where the policy is not compiled for the model.
  virtual std::unique_ptr<Compressor>
  makeCompressor(const PolicyOptions &options) const = 0;
  /// For caches of `dtype`; without, of the type that the engine chooses. Throws
  /// Failure, also where the policy is not compiled for the model's caches of rows.
  virtual std::unique_ptr<CacheCompressor>
  makeCacheCompressor(const PolicyOptions &options,
                      std::optional<kvc_dtype> dtype) const = 0;
  virtual std::unique_ptr<RecentQueries>
  makeRecentQueries(uint32_t most) const = 0;
  /// For a prompt of `tokens` tokens, whose cache gets room for them.
  virtual std::unique_ptr<ChunkedPrompt>
  makeChunkedPrompt(const Manifest &manifest, uint32_t tokens,
                    Cache &cache) const = 0;

  using LayerHook = std::function<void(uint32_t layer, Activations &)>;
  enum class LogitsOf { LastToken, AllTokens };
  /// Runs tokens at positions from `position` on against `cache`. `hook` is
  /// called once per layer, behind its attention, and must put into the cache
  /// what is to stay. Returns logits [1 or T, vocab].
  virtual std::vector<float> run(const std::vector<uint32_t> &tokens,
                                 uint32_t position, const Cache &cache,
                                 const LayerHook &hook,
                                 LogitsOf rows = LogitsOf::LastToken) const = 0;
  /// Output projection of a layer, [hidden, Hq * d], on the host.
  virtual std::vector<float> outputProjection(uint32_t layer) const = 0;

  const Config config;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_ENGINE_ENGINE_H
