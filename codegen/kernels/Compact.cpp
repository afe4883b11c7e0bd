//===- Compact.cpp - gather the kept rows into the ragged cache -----------===//
//
// grid (ceildiv(index_capacity, R), Hkv, batch), 128 threads; a thread moves
// one 16-byte piece of a K row and of a V row at a time, R rows per block. Head
// after head, `slack` rows behind each. Reads and writes 2 * d * bytes per kept
// row.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Kernels.h"

using namespace mlir;
using namespace kvc;

static constexpr int64_t threads = 128;
static constexpr int64_t piecesPerThread = 4;

void kvc::buildCompact(KernelOp kernel, const KernelSite &site) {
  int64_t width = site.shape.vectorWidth();
  int64_t pieces = site.shape.headDim / width;
  int64_t rows = std::max<int64_t>(1, threads * piecesPerThread / pieces);
  LaunchSpec spec;
  spec.args = {
      "kv_heads", "k",      "k_batch", "k_head",   "k_token", "v",
      "v_batch",  "v_head", "v_token", "indices",  "counts",  "index_capacity",
      "k_out",    "v_out",  "offsets", "out_rows", "slack"};
  spec.blockSize = threads;
  spec.grid = {"ceildiv(index_capacity," + std::to_string(rows) + ")",
               "kv_heads", "batch"};
  KernelBuilder k(site.builder, site.name, site.shape, spec, site.scratch);

  Expr heads = k.arg("kv_heads"), capacity = k.arg("index_capacity");
  Expr sequence = k.block(gpu::Dimension::z), head = k.block(gpu::Dimension::y);
  Buffer counts = k.buffer("counts", {heads});
  Buffer offsets = k.buffer("offsets", {heads});
  Buffer indices = k.buffer("indices", {heads * capacity, capacity});
  Expr rowSize = k.index(site.shape.headDim);
  Expr outRows = k.arg("out_rows");
  Buffer from[2], to[2];
  for (int i = 0; i < 2; ++i) {
    std::string name = i == 0 ? "k" : "v";
    from[i] = k.buffer(name, {k.arg(name + "_batch"), k.arg(name + "_head"),
                              k.arg(name + "_token")});
    to[i] = k.buffer(name + "_out", {outRows * rowSize, rowSize});
  }

  // Counts are at most index_capacity even where the status word says that the
  // policy asked for more.
  auto kept = [&](Expr h) {
    return k.load(counts, {sequence, h}).toIndex().min(capacity);
  };
  Expr offset = k.loop(k.index(0), head, k.index(1), {k.index(0)},
                       [&](Expr h, ArrayRef<Expr> carried) {
                         return KernelBuilder::Values{carried[0] + kept(h) +
                                                      k.arg("slack")};
                       })[0];
  Expr count = kept(head), thread = k.thread();
  Expr first = k.block(gpu::Dimension::x) * rows;
  k.when((first == 0) & (thread == 0), [&] {
    k.store(offset.toI32(), offsets, {sequence, head});
  });
  k.loop(thread, k.index(rows * pieces), k.index(threads), [&](Expr piece) {
    Expr row = first + piece / pieces, dim = (piece % pieces) * width;
    k.when((row < count) & (offset + row < outRows), [&] {
      Expr token = k.load(indices, {sequence, head, row}).toIndex();
      for (int side = 0; side < 2; ++side)
        k.storeVector(
            k.loadVector(from[side], {sequence, head, token, dim}, width),
            to[side], {sequence, offset + row, dim});
    });
  });
}
