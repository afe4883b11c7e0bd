//===- Generate.h - a model, its prefill, the policy in it ----------------===//

#ifndef KVC_EXECUTOR_SESSION_GENERATE_H
#define KVC_EXECUTOR_SESSION_GENERATE_H

#include "executor/session/OpenEngine.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kvc::rt {

struct GenerateOptions {
  std::string model, target; // target as in makeEngine
  PolicyOptions policy;      // without a library: full cache
  /// Of `every`, and for a loaded cache; without a library it is `policy`.
  PolicyOptions later;
  std::string budget, keep; // exactly one with a policy
  std::string prompt;       // text, used where `tokens` is empty
  std::vector<uint32_t> tokens;
  /// Read after the prompt has been compressed, each from the same cache.
  std::vector<std::string> questions;
  uint32_t maxNewTokens = 64;
  bool ignoreEos = false;
  uint32_t chunk = 0;        // tokens of the prompt read at once; 0: all
  bool evictBetween = false; // compress each chunk as it has been read
  bool rerank = false;       // evict behind each chunk from all that is kept
  uint32_t every = 0;        // and behind the prompt every so many tokens
  std::string dumpLayers;    // file for the prefill's activations
  std::string dumpRuns;      // folder for the policy's runs over the cache
  /// Files of the cache behind the prompt; a loaded one stands for the prompt, and
  /// a policy evicts from it at once.
  std::string saveCache, loadCache;
  std::function<void(uint32_t done, uint32_t layers)> progress; // may be empty
};

/// A question's, or without questions the prompt's.
struct Answer {
  std::vector<uint32_t> question, tokens;
  std::string text;
  /// Rows per layer and KV head in the end.
  std::vector<std::vector<int32_t>> kept;
};

struct GenerateResult {
  std::vector<uint32_t> promptTokens;
  std::vector<Answer> answers; // at least one
  /// The largest five logits at the prompt's last position.
  std::vector<std::pair<uint32_t, float>> top;
  std::string policy, target;
  uint32_t budget = 0;
  /// Kept rows per layer and KV head after eviction.
  std::vector<std::vector<int32_t>> kept;
  size_t cacheBytesFull = 0, cacheBytesKept = 0;
  size_t cacheBytesPeak = 0; // of the prompt and all answers
  double prefillSeconds = 0, evictSeconds = 0, decodeSeconds = 0;
  uint32_t decodedTokens = 0;
  std::vector<std::string> warnings;
};

/// Throws Failure.
GenerateResult generate(const GenerateOptions &options);

/// The result as JSON.
std::string formatResult(const GenerateResult &result);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_SESSION_GENERATE_H
