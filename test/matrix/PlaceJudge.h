//===- PlaceJudge.h - kept rows that were put into a view -----------------===//

#ifndef KVC_TEST_MATRIX_PLACEJUDGE_H
#define KVC_TEST_MATRIX_PLACEJUDGE_H

#include "test/matrix/RowsCall.h"

namespace kvc::test {

/// A cache, and the view that what is kept of it goes into.
struct Place {
  kvc_cache_kind cache, into;
  bool inPlace = false, tail = false;
  /// Chooses the layouts of both.
  uint32_t turn = 0;

  /// Rows can stay in memory of this kind.
  bool canBeInPlace() const {
    return cache == into || (cache == KVC_DENSE && into == KVC_RAGGED);
  }
  std::string text() const;
};

/// Kept rows in a view are those of `want`, which were packed, and no byte of memory
/// changes where none of them goes; where rows merge in place, nor where no row was. In
/// pages also which entries became free. `raw`: keys before RoPE, or null.
Faults judgePlace(kvc_module *module, const Place &place, const Cache &cache,
                  const Cache *raw, const RowsInput &input,
                  const RowsResult &want);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_PLACEJUDGE_H
