//===- PlaceJudge.h - kept rows that were put into a view -----------------===//

#ifndef KVC_TEST_MATRIX_PLACEJUDGE_H
#define KVC_TEST_MATRIX_PLACEJUDGE_H

#include "test/matrix/RowsCall.h"

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

/// A cache, and the view that what is kept of it goes into.
struct Passage {
  kvc_cache_kind cache, into;
};

/// Kept rows in a view of their own, and in place: those of `want`, and no byte of
/// memory changes where none of them goes; where rows merge in place, nor where no row
/// was. `raw`: keys before RoPE, or null. Front or tail by the seed; KVC_ALL_CASES=1:
/// both.
void judgePassage(kvc_module *module, const Passage &passage,
                  const Cache &cache, const Cache *raw, const RowsInput &input,
                  const RowsResult &want, uint32_t seed);

/// Rows without a place are dropped, and nothing is written for them: on a device that
/// the host cannot look into.
void judgeWrongInto(kvc_module *module, const Passage &passage,
                    const Cache &cache, const Cache *raw,
                    const RowsInput &input);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_PLACEJUDGE_H
