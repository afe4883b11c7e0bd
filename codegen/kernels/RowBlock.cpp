//===- RowBlock.cpp - one block, one KV head: what its parts share --------===//

#include "codegen/kernels/RowBlock.h"

using namespace mlir;
using namespace kvc;

int64_t RowBlock::members(Value value) const {
  return headsOf(value.getType()) == Axis::QueryHeads ? k.shape.group : 1;
}

void RowBlock::forTokens(llvm::function_ref<void(Expr)> body) {
  k.loop(begin + k.thread(), end, threads, body);
}

Expr RowBlock::overTokens(ReduceKind kind,
                          llvm::function_ref<Expr(Expr)> value) {
  Expr mine = k.fold(begin + k.thread(), end, threads, reductionStart(k, kind),
                     [&](Expr token, Expr acc) {
                       return reductionStep(kind, acc, value(token));
                     });
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

Buffer RowBlock::storeBuffer(StoreOp store) const {
  Expr row = k.arg("max_tokens");
  Expr heads = k.arg("kv_heads") * members(store);
  return k.buffer(scratchName(store.getBufferAttr()), {heads * row, row});
}

Expr RowBlock::loadStored(StoreOp store, const Point &point) const {
  Axis heads = headsOf(store.getType()) == Axis::QueryHeads ? Axis::QueryHeads
                                                            : Axis::KVHeads;
  return k.load(storeBuffer(store),
                {s.sequence, headIndex(k, heads, point), point.token});
}

void RowBlock::runStore(StoreOp store) {
  Buffer memory = storeBuffer(store);
  forTokens([&](Expr token) {
    PointEval eval = at(token);
    for (int64_t j = 0; j < members(store); ++j) {
      Expr value = eval(store.getValue(), j);
      Expr row = head * members(store) + j;
      k.store(value, memory, {s.sequence, row, token});
    }
  });
  k.barrier(); // the block may read all of it
}

void RowBlock::storeOutputs() {
  auto yield = cast<YieldOp>(kernel.getBody().front().back());
  for (auto [value, name] :
       llvm::zip(yield.getValues(), outputBuffers(kernel))) {
    if (needsOf(value.getDefiningOp()).writesResults)
      continue; // these have been written
    Axis heads = headsOf(value.getType());
    Buffer memory = scratchBuffer(k, name, value.getType());
    // One row for all heads: the first head's block writes it.
    Expr mine = heads == Axis::OneHead ? head == 0 : k.boolean(true);
    auto storeAt = [&, value = value](Expr token, ArrayRef<Expr> tail) {
      PointEval eval = at(token);
      for (int64_t j = 0; j < members(value); ++j) {
        Point p{head, int(j), {}, token};
        SmallVector<Expr> at{s.sequence, headIndex(k, heads, p)};
        at.append(tail.begin(), tail.end());
        Expr result = eval(value, j);
        k.when(mine, [&] { k.store(result, memory, at); });
      }
    };
    if (axesOf(value.getType()).size() == 1)
      k.when(k.thread() == 0, [&] { storeAt(k.index(0), {}); });
    else
      forTokens([&](Expr token) { storeAt(token, {token}); });
  }
}
