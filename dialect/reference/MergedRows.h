//===- MergedRows.h - rows that represent members --------------------------===//

#ifndef KVC_DIALECT_REFERENCE_MERGEDROWS_H
#define KVC_DIALECT_REFERENCE_MERGEDROWS_H

#include "dialect/reference/Interpreter.h"

namespace kvc::reference {

/// A cache whose rows are the members, each with its own key: that of its row,
/// turned by its own position and as long as its own was. The layer itself
/// where nothing is merged.
Layer cacheOfMembers(const Layer &layer);

/// Of a merged cache, [Hkv], ascending by position: the members of kept tokens
/// and of those that join one. Of more than `most` the first that are not their
/// row's only one go.
std::vector<std::vector<Kept::Member>>
leftMembers(const Layer &layer, const Kept &kept, int64_t past, int64_t most);

/// Numbers of tokens, [Hkv, T], for each kept token, what joins it added in
/// order of position.
std::vector<std::vector<double>> ofKept(const Layer &layer,
                                        const Tensor &numbers, const Kept &kept,
                                        int64_t past);

} // namespace kvc::reference

#endif // KVC_DIALECT_REFERENCE_MERGEDROWS_H
