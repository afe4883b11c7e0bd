//===- Evaluate.h - what policies cost in quality -------------------------===//
//
// A prompt is read once: behind each layer's attention every policy, at every
// budget, makes a cache of its own, from which the answer is then decoded. In chunks
// it is read for each cache, since what a chunk sees is what was kept.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EVAL_EVALUATE_H
#define KVC_EVAL_EVALUATE_H

#include "eval/Tasks.h"

#include <functional>
#include <string>
#include <vector>

namespace kvc::rt {

struct EvalOptions {
  std::string model;
  std::vector<std::string> policies; // libraries; the full cache comes first
  std::vector<std::string> budgets;  // "5%" of the tokens, or tokens
  std::vector<std::string> tasks;
  bool aware = true, agnostic = false;
  uint32_t chunk = 0;        // tokens of a prompt read at once; 0: all
  bool evictBetween = false; // compress each chunk as it has been read
  bool rerank = false;       // evict behind each chunk from all that is kept
  uint32_t every = 0;        // and behind the prompt every so many tokens
  std::string everyPolicy;   // library for that; empty: the policy itself
  std::string target, table;
  TaskOptions task;
  /// Prompts of each task and mode of which is also recorded where kept tokens
  /// lie and how much the layers' outputs change; none are with `chunk`.
  uint32_t details = 2;
  std::string results; // file; FILE.part holds the samples done so far
  std::function<void(size_t done, size_t samples)> progress; // may be empty
};

/// Runs what FILE.part does not have yet, writes the results and removes it.
/// Returns the table for a terminal. Throws Failure, also where FILE.part is of
/// a run with other options.
std::string evaluate(const EvalOptions &options);

/// The table of a results file.
std::string formatTable(const std::string &results);

} // namespace kvc::rt

#endif // KVC_EVAL_EVALUATE_H
