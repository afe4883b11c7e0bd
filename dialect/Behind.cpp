//===- Behind.cpp - the values that a value is computed from --------------===//

#include "dialect/Behind.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

void kvc::walkBehind(Value value, llvm::function_ref<bool(Value)> body) {
  llvm::SetVector<Value> found;
  found.insert(value);
  for (size_t i = 0; i < found.size(); ++i)
    if (Value next = found[i]; body(next))
      if (Operation *op = next.getDefiningOp())
        found.insert(op->operand_begin(), op->operand_end());
}
