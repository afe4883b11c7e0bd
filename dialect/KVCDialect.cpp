//===- KVCDialect.cpp - registration --------------------------------------===//

#include "dialect/KVCDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "dialect/KVCDialect.cpp.inc"
#include "dialect/KVCEnums.cpp.inc"
#include "dialect/KVCInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/KVCAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/KVCOps.cpp.inc"

void kvc::KVCDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/KVCAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/KVCOps.cpp.inc"
      >();
}

int64_t kvc::constantOf(Value value) {
  llvm::APInt constant;
  if (value && matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return 0;
}
