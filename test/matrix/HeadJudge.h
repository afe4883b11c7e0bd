//===- HeadJudge.h - what judges of merged rows have in common ------------===//
//
// Head by head through the rows that are kept and the table of members, and what the
// reference's search for destinations says of a token.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_MATRIX_HEADJUDGE_H
#define KVC_TEST_MATRIX_HEADJUDGE_H

#include "test/matrix/Judge.h"

#include "runtime/base/Format.h"

namespace kvc::test {

class HeadJudge {
public:
  HeadJudge(const Problem &problem, const rt::KeptSequence &got,
            const reference::Kept &want, Margin &margin);
  virtual ~HeadJudge() = default;

  Faults run();

protected:
  /// Of head `g`, whose tokens are `kept`.
  virtual void judgeHead() = 0;

  const reference::Layer &layer;
  const rt::KeptSequence &got;
  const reference::Kept &want;
  Margin &margin;
  /// The past, also where nothing was ranked.
  const int64_t past;
  const std::vector<double> k, v;
  /// What a mean that is rounded to the type may be off by, next to 1.
  const double unit;

  Faults faults;
  int64_t g = 0;
  /// The head's first entry of the table, and its first row.
  size_t entry = 0, row0 = 0;
  std::vector<int64_t> kept;
  bool same = true; // as the reference's: no near tie in the selection

  template <typename... Args>
  void add(fmt::format_string<Args...> text, Args &&...args) {
    faults.add(rt::formatted("head {}: ", g) +
               rt::formatted(text, std::forward<Args>(args)...));
  }

  bool isKept(int64_t token) const;
  /// Where the reference merges a token, or -1.
  int64_t destinationOf(int64_t token) const;
  double similarity(int64_t token, int64_t to) const;
  /// Similarities are products of two quotients of fp32 sums.
  static constexpr double slack = 2e-5;

  /// A token that is merged into the row of `to`.
  void judgeDestination(int64_t token, int64_t to);
  /// One that has no row though the reference merges it into the row of `to`.
  void judgeLeftOut(int64_t token, int64_t to);
};

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_HEADJUDGE_H
