//===- Scores.h - a prediction against a sample's answers -----------------===//
//
// The metrics of RULER (Hsieh et al. 2024) and LongBench (Bai et al. 2023), as
// their scripts compute them, English and code.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EVAL_SCORES_H
#define KVC_EVAL_SCORES_H

#include "eval/Sample.h"

namespace kvc::rt {

/// 0 to 1, of texts. Exact compares texts; LogLikelihood has no text.
double score(const Sample &sample, const std::string &prediction);

/// F1 of words without case, punctuation and articles.
double wordF1(const std::string &prediction, const std::string &answer);
/// ROUGE-L, summary level: sentences end at full stops; words count once.
double rougeL(const std::string &prediction, const std::string &answer);
/// 2 * LCS / (length + length) of characters, rounded to whole per cents.
double editSimilarity(const std::string &prediction, const std::string &answer);

} // namespace kvc::rt

#endif // KVC_EVAL_SCORES_H
