//===- Cases.h - what a policy is run on ----------------------------------===//

#ifndef KVC_TEST_RANDOM_CASES_H
#define KVC_TEST_RANDOM_CASES_H

#include "test/matrix/Problem.h"

#include <string>

namespace kvc::random {

/// Shape, lengths and kind of data. All else follows from `data`.
struct Case {
  test::Shape shape{2, 2, 32, KVC_F32};
  std::vector<std::pair<int64_t, int64_t>> sequences{{100, 30}}; // T, B
  test::Keys keys = test::Keys::Random;
  test::Special special = test::Special::None;
  /// Layers of the model; those of a policy that does not look are one.
  int64_t layers = 1;
  /// A prompt, or a cache of rows.
  kvc_cache_kind cache = KVC_DENSE;
  /// Where kept rows go, once more: KVC_RAGGED or KVC_PAGED views, or KVC_DENSE: packed
  /// alone. Bit 0 of `place`: in place, where rows can be; bit 1: at the tail; what is above
  /// chooses the layouts.
  kvc_cache_kind into = KVC_DENSE;
  uint32_t place = 0;
  uint64_t data = 1;

  /// "kv=2,group=2,head_dim=32,dtype=f32,keys=random,special=none,layers=1,
  /// data=1,seq=100:30,seq=20:10"; in front of data perhaps "cache=ragged",
  /// "cache=paged" or "cache=merged" and "into=paged,place=13". What is left out is as above.
  static Case parse(const std::string &text); // throws rt::Failure
  std::string text() const;
};

/// The case of a seed.
Case makeCase(uint64_t seed);
/// What no cache of rows has yet is asked of a prompt, and what pages do not have of
/// rows behind each other.
Case fitted(Case c, const std::string &policy);

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_CASES_H
