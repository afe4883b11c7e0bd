//===- KVCAxes.h - what a tensor's dimensions count -----------------------===//
//
// Axes are inferred once (kvc-infer-axes) and then live in the tensor types as
// #kvc.axes. Everything behind that pass reads them through this header.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_DIALECT_KVCAXES_H
#define KVC_DIALECT_KVCAXES_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

#include "dialect/KVCEnums.h.inc"

namespace kvc {

/// Axes of one tensor, outermost first. Empty for scalars.
using AxisList = llvm::SmallVector<Axis, 4>;

/// The wider of two head axes: one head < KV heads < query heads.
Axis joinHeads(Axis a, Axis b);

/// The axes in the type's encoding; empty for scalars and bare tensors.
AxisList axesOf(mlir::Type type);

/// The head axis of a value; OneHead for scalars.
Axis headsOf(mlir::Type type);

/// Values of a digit of a score's key, 11 bits: the extent of the axis `bin`.
constexpr int64_t digitBins = 2048;

/// `type` with the axes as encoding. Dimensions of static extent (the window,
/// a pair) are given in `window`, which is 0 when there is none.
mlir::RankedTensorType withAxes(mlir::RankedTensorType type,
                                llvm::ArrayRef<Axis> axes, int64_t window);

} // namespace kvc

#endif // KVC_DIALECT_KVCAXES_H
