//===- Sample.h - one question of a benchmark -----------------------------===//

#ifndef KVC_EVAL_SAMPLE_H
#define KVC_EVAL_SAMPLE_H

#include <cstdint>
#include <string>
#include <vector>

namespace kvc::rt {

/// How an answer is scored, 0 to 1; LogLikelihood is the mean natural logarithm
/// of the probability of the answer's tokens.
enum class Metric {
  Exact,          // token for token what was expected
  ContainsAll,    // share of the answers that occur
  ContainsAny,    // 1 where one of the answers occurs
  F1,             // words in common with the best answer
  RougeL,         // longest common subsequences with the best answer
  Classification, // the class is named, shared with other classes that are
  Retrieval,      // share of the numbers named that are the paragraph's
  Count,          // share of the numbers named that are the count
  EditSimilarity, // of the first line of code
  LogLikelihood,
};

struct Sample {
  std::string id;   // unique in a run: "FILE:LINE", "ruler:KIND:NUMBER"
  std::string task; // what results are averaged over
  /// Question-aware, both are compressed; question-agnostic, the context only.
  std::string context, question;
  std::vector<std::string> answers; // any of them will do, but for ContainsAll
  Metric metric = Metric::Exact;
  uint32_t maxNewTokens = 0;        // 0: as many as the answer has
  std::vector<std::string> classes; // of Classification
  bool firstLine = false;           // only the answer's first line counts
};

} // namespace kvc::rt

#endif // KVC_EVAL_SAMPLE_H
