//===- RowsReference.h - a cache of rows as the reference sees it ---------===//

#ifndef KVC_TEST_MATRIX_ROWSREFERENCE_H
#define KVC_TEST_MATRIX_ROWSREFERENCE_H

#include "dialect/KVCDialect.h"
#include "dialect/reference/Meaning.h"
#include "test/matrix/RowsCall.h"

namespace kvc::test {

/// Sequence `sequence` of a layer, tokens in the place of their positions, NaN where a
/// head has no row of one. `raw`: the cache's keys before RoPE.
reference::Layer layerOf(PolicyOp policy, const Cache &cache, const Cache &raw,
                         const RowsInput &input, uint32_t sequence);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_ROWSREFERENCE_H
