//===- Passages.h - a policy's rows, put into views by a test -------------===//

#ifndef KVC_TEST_MATRIX_PASSAGES_H
#define KVC_TEST_MATRIX_PASSAGES_H

#include "test/matrix/PlaceJudge.h"

namespace kvc::test {

/// A cache, and the view that what is kept of it goes into.
struct Passage {
  kvc_cache_kind cache, into;
};

/// The same rows with the same bytes. Faults go to gtest, here and below.
void expectSame(const RowsResult &a, const RowsResult &b);

/// judgePlace in a view of its own, and in place. Front or tail by the seed;
/// KVC_ALL_CASES=1: both.
void judgePassage(kvc_module *module, const Passage &passage,
                  const Cache &cache, const Cache *raw, const RowsInput &input,
                  const RowsResult &want, uint32_t seed);

/// Rows without a place are dropped, and nothing is written for them: on a device that
/// the host cannot look into.
void judgeWrongInto(kvc_module *module, const Passage &passage,
                    const Cache &cache, const Cache *raw,
                    const RowsInput &input);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_PASSAGES_H
