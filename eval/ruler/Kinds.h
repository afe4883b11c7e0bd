//===- Kinds.h - the makers of RULER's task kinds -------------------------===//
//
// The kinds and their parameters are those of Hsieh et al. 2024, appendix B;
// the words are our own. Everything follows from a sample's seed.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EVAL_RULER_KINDS_H
#define KVC_EVAL_RULER_KINDS_H

#include "eval/Prose.h"
#include "eval/Sample.h"

#include <functional>

namespace kvc::rt::ruler {

/// A sample without its context, which grows with a number of units of filling.
struct Growing {
  Sample sample;
  std::function<std::string(size_t units)> context;
};

/// A sentence that tells and hides nothing.
extern const char noise[];
std::string join(const std::vector<std::string> &parts, const char *between);

/// The sentences of a text, again and again; without a file made-up prose.
class Haystack {
public:
  /// Throws Failure.
  explicit Haystack(const std::string &file);
  std::string at(size_t n, Dice &dice) const;

private:
  std::vector<std::string> sentences;
};

/// `kind` begins with niah_.
Growing makeNeedles(const std::string &kind, uint64_t seed,
                    const Haystack &haystack);
/// One chain of assignments, four hops.
Growing makeTracking(uint64_t seed);
/// The ten words of a list that are common.
Growing makeCommonWords(uint64_t seed);
/// The three words of a coded text that are most frequent.
Growing makeFrequentWords(uint64_t seed);

/// What can be asked, and texts that do not help.
struct Library {
  struct Question {
    std::string question;
    std::vector<std::string> answers, documents;
  };
  std::vector<Question> questions;
  std::vector<std::string> distractors;

  /// SQuAD's and HotpotQA's JSON. Throws Failure.
  static Library squad(const std::string &path);
  static Library hotpot(const std::string &path);
  /// Made-up people; with two hops the question goes through their town.
  static Library madeUp(uint64_t seed, bool twoHops);
};
/// A question on one document, or two, of many.
Growing makeQuestion(const Library &library, uint64_t seed);

} // namespace kvc::rt::ruler

#endif // KVC_EVAL_RULER_KINDS_H
