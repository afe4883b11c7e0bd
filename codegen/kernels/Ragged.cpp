//===- Ragged.cpp - rows of the ragged cache that a kernel writes ---------===//

#include "codegen/kernels/Ragged.h"

#include "codegen/kernels/Kernels.h"
#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

void Ragged::addArgs(std::vector<std::string> &args) {
  for (const char *arg : {"kv_heads", "counts", "index_capacity", "k_out",
                          "v_out", "offsets", "out_rows", "slack", "status"})
    addArg(args, arg);
}

Expr Ragged::countOf(KernelBuilder &k, Expr sequence, Expr head) {
  // Even where the status word says that the policy asked for more.
  Buffer counts = k.buffer("counts", {k.arg("kv_heads")});
  return k.load(counts, {sequence, head})
      .toIndex()
      .min(k.arg("index_capacity"));
}

Ragged::Ragged(KernelBuilder &k, Expr sequence, Expr head, Expr count,
               llvm::function_ref<Expr(Expr)> countOf)
    : k(k), sequence(sequence), head(head), count(count) {
  Expr rowSize = k.index(k.shape.headDim);
  for (int side : {0, 1})
    out[side] = k.buffer(side == 0 ? "k_out" : "v_out",
                         {k.arg("out_rows") * rowSize, rowSize});
  using Values = KernelBuilder::Values;
  // A row of counts at a time: one by one, each would wait for its load.
  offset = k.streamOver(
      k.index(0), head, 1, {k.index(0)},
      [&](Expr other) {
        other = other.min(head);
        return Values{countOf ? countOf(other)
                              : Ragged::countOf(k, sequence, other)};
      },
      [&](Expr other, ArrayRef<Expr> made, ArrayRef<Expr> sum) {
        Expr rows = made[0] + k.arg("slack");
        return Values{sum[0] + (other < head).select(rows, k.index(0))};
      },
      /*together=*/8)[0];
  fitting = count.min(k.arg("out_rows") - offset).max(k.index(0));
}

void Ragged::storeOffset() {
  k.store(offset.toI32(), k.buffer("offsets", {k.arg("kv_heads")}),
          {sequence, head});
  k.when(offset + count > k.arg("out_rows"),
         [&] { k.setStatus(KVC_DATA_CAPACITY); });
}

void Ragged::storePosition(Expr row, Expr position) {
  k.store(position.toI32(), k.buffer("positions_out", {k.arg("out_rows")}),
          {sequence, offset + row});
}

void Ragged::store(int side, Expr row, Expr dim, Expr value) {
  k.storeVector(value, out[side], {sequence, offset + row, dim});
}
