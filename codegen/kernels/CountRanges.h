//===- CountRanges.h - how large a count can be ---------------------------===//

#ifndef KVC_CODEGEN_KERNELS_COUNTRANGES_H
#define KVC_CODEGEN_KERNELS_COUNTRANGES_H

#include "dialect/KVCDialect.h"

#include <optional>

namespace kvc {

/// Whole numbers from -2^bits + 1, or 0, to 2^bits - 1, whatever the call says.
struct CountRange {
  unsigned bits;
  bool signs = false; // some may be below 0
};

/// What ranges scalars and counts have. Arithmetic wraps: where a type has no room for
/// what may come out, it may be any number of the type, and there is no range.
class CountRanges {
public:
  std::optional<CountRange> of(mlir::Value value);

private:
  llvm::DenseMap<mlir::Value, std::optional<CountRange>> known;

  std::optional<CountRange> compute(mlir::Value value);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_COUNTRANGES_H
