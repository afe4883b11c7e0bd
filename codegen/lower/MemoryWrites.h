//===- MemoryWrites.h - what loads may not be moved over ------------------===//

#ifndef KVC_CODEGEN_LOWER_MEMORYWRITES_H
#define KVC_CODEGEN_LOWER_MEMORYWRITES_H

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kvc {

/// True where `op` may write what a load reads.
inline bool mayWrite(mlir::Operation *op) {
  if (op->getNumRegions())
    return true;
  if (mlir::isMemoryEffectFree(op))
    return false;
  auto effects = mlir::dyn_cast<mlir::MemoryEffectOpInterface>(op);
  return !effects || !effects.onlyHasEffect<mlir::MemoryEffects::Read>();
}

} // namespace kvc

#endif // KVC_CODEGEN_LOWER_MEMORYWRITES_H
