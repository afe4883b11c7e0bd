//===- Placing.h - kept rows in a view that an engine would have ----------===//
//
// Rows that were packed and judged lie elsewhere here: in a view of their own or in
// place, of any layout. The bytes must be the same, and all other memory as it was.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_RANDOM_PLACING_H
#define KVC_TEST_RANDOM_PLACING_H

#include "test/matrix/PlaceJudge.h"
#include "test/random/Cases.h"

namespace kvc::random {

/// What the case's rows go from and into; c.into is not KVC_DENSE.
test::Place placeOf(const Case &c);

/// Which cache the plan of a place is of: its variant is compiled for.
kvc_cache_kind planned(const Case &c);

/// One layer. `packed` is what the policy kept of the problems, with no log-sum-exp
/// given; `table` is null for policies that do not ask for it, as the counts in
/// `keptLayers` ([sequence][T]) are empty.
test::Faults judgePlaced(kvc_module *module, const Case &c, PolicyOp policy,
                         const std::vector<test::Problem> &problems,
                         const std::vector<float> *table,
                         const std::vector<std::vector<double>> &keptLayers,
                         const rt::KeptLayer &packed);

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_PLACING_H
