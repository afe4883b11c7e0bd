//===- Coverage.h - what policies have made the compiler do ---------------===//

#ifndef KVC_TEST_RANDOM_COVERAGE_H
#define KVC_TEST_RANDOM_COVERAGE_H

#include "dialect/KVCDialect.h"

#include <iosfwd>
#include <map>
#include <set>
#include <string>

namespace kvc::random {

/// The kinds that kvc.reduce takes over an axis, as the dialect has them.
std::vector<std::string> reductions(const std::string &axis);

/// The kinds of kvc.segment, of tokens or of vectors.
std::vector<std::string> segmentKinds(bool ofVectors);

/// What one fused policy holds: "op kind axis | heads and axes | kernel", and
/// pairs of ops of one kernel.
struct Cells {
  std::set<std::string> ops, pairs;
  /// Names of ops, with kind and axis, that ran on a cache of rows.
  std::set<std::string> ofRows;
  void runOnRows();
};

Cells cellsOf(PolicyOp fused);

/// Sums over many policies.
class Coverage {
public:
  void add(const Cells &cells);
  /// All cells with how many policies had them, pairs, and the holes: what the
  /// dialect has and no policy did, or none on a cache of rows.
  void print(std::ostream &stream) const;
  /// Names of ops, with kind and axis, that no policy had.
  std::vector<std::string> holes() const;

private:
  std::map<std::string, int64_t> ops, pairs, ofRows;
  int64_t caches = 0;
};

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_COVERAGE_H
