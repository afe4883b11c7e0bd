//===- KVCPlan.h - one scratch buffer of a plan ---------------------------===//

#ifndef KVC_DIALECT_KVCPLAN_H
#define KVC_DIALECT_KVCPLAN_H

#include "mlir/IR/BuiltinTypes.h"

#include <optional>

namespace kvc {

struct PlannedBuffer {
  /// Kernels that need it.
  unsigned first, last;
  mlir::RankedTensorType type;
  /// Each block of its kernel has one of its own.
  bool perBlock;
  /// Elements are in the model's type, whatever `type` says.
  bool inModelType;

  bool operator==(const PlannedBuffer &other) const = default;
};

inline llvm::hash_code hash_value(const PlannedBuffer &b) {
  return llvm::hash_combine(b.first, b.last, b.type, b.perBlock, b.inModelType);
}

} // namespace kvc

#endif // KVC_DIALECT_KVCPLAN_H
