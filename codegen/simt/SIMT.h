//===- SIMT.h - the simt dialect ------------------------------------------===//

#ifndef KVC_CODEGEN_SIMT_SIMT_H
#define KVC_CODEGEN_SIMT_SIMT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "codegen/SIMTDialect.h.inc"
#define GET_OP_CLASSES
#include "codegen/SIMTOps.h.inc"

namespace kvc {

/// Threads that run together, on every GPU of ours.
constexpr int64_t warpSize = 32;

} // namespace kvc

#endif // KVC_CODEGEN_SIMT_SIMT_H
