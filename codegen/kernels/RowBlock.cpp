//===- RowBlock.cpp - one block, one KV head: what its parts share --------===//

#include "codegen/kernels/RowBlock.h"

using namespace mlir;
using namespace kvc;

void RowBlock::forTokens(llvm::function_ref<void(Expr)> body) {
  k.loop(k.thread(), s.past, k.index(threads), body);
}

Expr RowBlock::overTokens(ReduceKind kind,
                          llvm::function_ref<Expr(Expr)> value) {
  Expr mine =
      k.loop(k.thread(), s.past, k.index(threads), {reductionStart(k, kind)},
             [&](Expr token, ArrayRef<Expr> carried) {
               return KernelBuilder::Values{
                   reductionStep(kind, carried[0], value(token))};
             })[0];
  return block.reduce(kind, mine);
}

Buffer RowBlock::outputOf(Value value) {
  auto yield = cast<YieldOp>(kernel.getBody().front().back());
  for (auto [yielded, name] :
       llvm::zip(yield.getValues(), outputBuffers(kernel)))
    if (yielded == value)
      return scratchBuffer(k, name, value.getType());
  llvm_unreachable("what is listed is always read by another kernel");
}
