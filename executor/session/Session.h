//===- Session.h - one sequence that a model reads and continues ----------===//

#ifndef KVC_EXECUTOR_SESSION_SESSION_H
#define KVC_EXECUTOR_SESSION_SESSION_H

#include "executor/eviction/Budget.h"
#include "executor/engine/Engine.h"

namespace kvc::rt {

class LayerDump;

/// How a prompt is read.
struct PrefillOptions {
  uint32_t chunk = 0;        // tokens read at once; 0: all
  bool evictBetween = false; // each chunk is compressed as it has been read
  LayerDump *dump = nullptr; // takes the layers of a prompt read at once
  std::function<void(uint32_t done, uint32_t steps)> progress; // may be empty
};

/// A cache, the position behind it, and the logits of the last token. Copies
/// are independent: a prompt is read once and asked many questions.
class Session {
public:
  Session(const Engine &engine, kvc_dtype dtype);
  Session(const Session &other);
  Session(Session &&) = default;

  /// Reads a prompt from position 0; compresses it unless `compressor` is null.
  /// In chunks without `evictBetween` the cache is whole until all has been
  /// read, then compressed layer by layer, as it would be without chunks. With
  /// it, a chunk sees what earlier chunks have kept, is compressed by itself,
  /// and gets the part of the budget that its length is of the prompt's.
  void prefill(const std::vector<uint32_t> &tokens, Compressor *compressor,
               const Budget &budget, const PrefillOptions &options = {});
  /// Reads tokens and keeps them all.
  void read(const std::vector<uint32_t> &tokens);
  /// Greedy continuation: at most `most` tokens, ended by an end token, which
  /// is returned too, unless `ignoreEos`.
  std::vector<uint32_t> decode(uint32_t most, bool ignoreEos);

  const Engine &engine;
  std::unique_ptr<Cache> cache;
  uint32_t position = 0;     // of the next token
  std::vector<float> logits; // of the last one; empty before the first

private:
  void readChunks(const std::vector<uint32_t> &tokens, Compressor &compressor,
                  uint32_t budget, const PrefillOptions &options);
  void run(const std::vector<uint32_t> &tokens, const Engine::LayerHook &hook);
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_SESSION_SESSION_H
