//===- SIMT.cpp - registration of the simt dialect ------------------------===//

#include "codegen/simt/SIMT.h"

#include "mlir/IR/Builders.h"

#include "codegen/SIMTDialect.cpp.inc"
#define GET_OP_CLASSES
#include "codegen/SIMTOps.cpp.inc"

void kvc::simt::SIMTDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "codegen/SIMTOps.cpp.inc"
      >();
}
