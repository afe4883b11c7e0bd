//===- Eviction.h - a compiled policy, run on problems --------------------===//

#ifndef KVC_TEST_MATRIX_EVICTION_H
#define KVC_TEST_MATRIX_EVICTION_H

#include "test/matrix/Problem.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvc::test {

/// T and B of the sequences of a batch.
using Sequences = std::vector<std::pair<int64_t, int64_t>>;

/// A library with a plan for such batches, of prompts or of caches of rows. The
/// target's size is filled in.
std::unique_ptr<rt::Evictor> openEvictor(const std::string &library,
                                         kvc_target target, const Shape &shape,
                                         const Sequences &sequences,
                                         kvc_cache_kind cache = KVC_DENSE);

/// One layer of all sequences; with their log-sum-exp given, or without. The
/// importance of heads goes to policies that read it only: others have null.
rt::KeptLayer evict(rt::Evictor &evictor, const std::vector<Problem> &problems,
                    const std::vector<float> *table, bool lse);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_EVICTION_H
