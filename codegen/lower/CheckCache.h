//===- CheckCache.h - what policies cannot do with a cache of rows --------===//

#ifndef KVC_CODEGEN_LOWER_CHECKCACHE_H
#define KVC_CODEGEN_LOWER_CHECKCACHE_H

#include "codegen/Shape.h"
#include "dialect/KVCDialect.h"

namespace kvc {

/// Emits an error at the first op of a fused policy that has no kernel for the
/// shape's kind of cache: where heads have rows of their own, a row's number says
/// nothing of another head's.
mlir::LogicalResult checkCache(PolicyOp policy, const Shape &shape);

} // namespace kvc

#endif // KVC_CODEGEN_LOWER_CHECKCACHE_H
