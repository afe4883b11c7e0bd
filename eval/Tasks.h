//===- Tasks.h - the samples that a task's name stands for ----------------===//

#ifndef KVC_EVAL_TASKS_H
#define KVC_EVAL_TASKS_H

#include "eval/Sample.h"

#include <functional>

namespace kvc::rt {

struct TaskOptions {
  uint32_t limit = 0; // samples of each task; 0: all of a file, 100 of RULER
  uint32_t length = 4096; // tokens of a RULER prompt, its answer included;
                          // twice those that are compressed of a text
  uint32_t positions = UINT32_MAX; // that the model has
  uint64_t seed = 0;
  std::string haystack;      // text between needles; empty: made-up prose
  std::string squad, hotpot; // their JSON files; empty: made-up documents
  std::string longbench; // folder of dataset2prompt.json, dataset2maxlen.json
  /// Tokens of a text.
  std::function<uint32_t(const std::string &)> count;
};

/// `name` is one of
///   FILE.jsonl      prompts of the needle model's kind (task, context,
///   question,
///                   answer), or of LongBench (dataset, context, input,
///                   answers)
///   ruler:KIND      generated; KIND of rulerKinds, or `all`
///   text:FILE       perplexity of a text
/// Throws Failure that names file, line and field.
std::vector<Sample> loadTask(const std::string &name,
                             const TaskOptions &options);
/// The file that a task of this name reads; empty: none.
std::string fileOfTask(const std::string &name);

/// Lines of JSON objects.
std::vector<Sample> loadJsonLines(const std::string &path,
                                  const TaskOptions &options);
/// Consecutive pieces of a text: half of `length` is compressed, the next half
/// is the answer whose likelihood is measured.
std::vector<Sample> loadText(const std::string &path,
                             const TaskOptions &options);
/// One of the 13 kinds of RULER (Hsieh et al. 2024), texts our own.
std::vector<Sample> makeRuler(const std::string &kind,
                              const TaskOptions &options);
/// Names of the 13 kinds.
const std::vector<std::string> &rulerKinds();

} // namespace kvc::rt

#endif // KVC_EVAL_TASKS_H
