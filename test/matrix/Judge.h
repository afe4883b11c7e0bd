//===- Judge.h - what kernels kept against what the reference keeps -------===//
//
// The one judge of all tests that run kernels beside the reference. What fp32
// cannot tell apart is for a Margin to say.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_MATRIX_JUDGE_H
#define KVC_TEST_MATRIX_JUDGE_H

#include "dialect/reference/Interpreter.h"
#include "test/matrix/Problem.h"

#include <string>
#include <vector>

namespace kvc::test {

/// What a judge has against a result, one line each; empty: nothing.
class Faults {
public:
  /// Only the first few are written down; all are counted.
  void add(std::string line);
  void append(const Faults &others, const std::string &where);
  bool empty() const { return number == 0; }
  const std::vector<std::string> &get() const { return lines; }

private:
  std::vector<std::string> lines;
  size_t number = 0;
};

/// How far a result in fp32 may be from the reference's in double.
class Margin {
public:
  virtual ~Margin() = default;
  /// May the head keep the token where the reference drops it, or the reverse?
  virtual bool keepsEither(int64_t head, int64_t token) = 0;
  /// May the head keep this many tokens?
  virtual bool keepsSoMany(int64_t head, size_t count) = 0;
  /// May the token have this score?
  virtual bool scoreMayBe(int64_t head, int64_t token, float got) = 0;
  /// May the token be a source of the search for a row to be merged into where
  /// the reference says that it is none, or the reverse?
  virtual bool searchesEither(int64_t head, int64_t token) = 0;
  /// The same of a row that others are merged into.
  virtual bool takesEither(int64_t, int64_t) { return false; }
};

/// May a row carry this number, where the reference has `want`?
bool carriedMayBe(float got, double want);

/// Kept tokens and their order, the bytes of K and V, scores, what rows carry, and
/// where rows are merged the table of members and the means.
Faults judge(const Problem &problem, const rt::KeptSequence &got,
             const reference::Kept &want, Margin &margin);

/// Infinities and NaN must be those of the reference.
bool isNear(double got, double want, double most);

/// Tables and means of a policy that merges (MergeJudge.cpp).
Faults judgeMerge(const Problem &problem, const rt::KeptSequence &got,
                  const reference::Kept &want, Margin &margin);

/// The same of a merged cache, and what its rows carry (MergedCacheJudge.cpp).
Faults judgeMergedCache(const Problem &problem, const rt::KeptSequence &got,
                        const reference::Kept &want, Margin &margin);

/// Tokens that a top-k of these scores marks must come before all others: the
/// larger first, of equal ones the smaller token; NaN last. The scores are the
/// kernels' own, so nothing is left to a margin.
Faults judgeRanking(const std::vector<float> &scores,
                    const std::vector<int64_t> &marked);

/// The same tokens.
Faults compareRows(const rt::KeptLayer &a, const rt::KeptLayer &b);
/// The same bytes of everything.
Faults compareBytes(const rt::KeptLayer &a, const rt::KeptLayer &b);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_JUDGE_H
