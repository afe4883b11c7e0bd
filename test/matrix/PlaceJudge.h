//===- PlaceJudge.h - kept rows that were put into a view -----------------===//

#ifndef KVC_TEST_MATRIX_PLACEJUDGE_H
#define KVC_TEST_MATRIX_PLACEJUDGE_H

#include "test/runtime/SmallCache.h"

namespace kvc::test {

/// Bytes that no kept row has are what they were. Faults go to gtest.
void expectUntouched(const Laid &into, std::vector<std::byte> before);

/// Which heads have rows in the pages of each entry of the tables: [entry of the
/// table] of head numbers, batch * heads of them. None without pages.
using PageOwners = std::vector<std::vector<uint32_t>>;
PageOwners ownersOf(const Laid &laid);

/// Whether `freed`, [batch * heads][2], first and number of entries, says what became
/// free. What is said to be free had rows and has none; and nothing is missing but pages
/// in which rows of several heads lay behind one another, and those with kept rows of
/// heads in the same slots on both sides.
void judgeFreed(const Laid &now, const PageOwners &before,
                const std::vector<int32_t> &freed);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_PLACEJUDGE_H
