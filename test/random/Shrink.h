//===- Shrink.h - a small policy and case with the same fault -------------===//

#ifndef KVC_TEST_RANDOM_SHRINK_H
#define KVC_TEST_RANDOM_SHRINK_H

#include "test/random/Cases.h"

#include <functional>

namespace kvc::random {

struct Failing {
  std::string policy;
  Case c;
};

/// Makes the case and the policy smaller as long as `fails` holds of them:
/// fewer sequences, tokens, heads and channels; ops left out or in the place of
/// what they compute from; smaller constants. Asks `most` times at most.
Failing shrink(Failing failing,
               const std::function<bool(const Failing &)> &fails, size_t most);

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_SHRINK_H
