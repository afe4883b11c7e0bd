//===- Compact.cpp - gather the kept rows into the ragged cache -----------===//
//
// grid (ceildiv(index_capacity, R), Hkv, batch), 128 threads; a thread moves
// one 16-byte piece of a K row and of a V row at a time, R rows per block. Head
// after head, `slack` rows behind each. Reads and writes 2 * d * bytes per kept
// row, and what it carries. Of a cache of rows it looks at every row's position and
// pages.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/Ragged.h"
#include "codegen/kernels/RowStates.h"

using namespace mlir;
using namespace kvc;

static constexpr int64_t compactThreads = 128;
static constexpr int64_t piecesPerThread = 4;

/// Looks at all rows of the block's head, and tells of what is wrong with them.
static void checkRows(KernelBuilder &k, Expr sequence, Expr head, Expr blocks) {
  Expr length = k.load(k.buffer("lengths", {}), {sequence}).toIndex();
  HeadRows rows(k, sequence, head, length);
  Expr block = k.block(gpu::Dimension::x);
  rows.tell(block * compactThreads + k.thread(), blocks * compactThreads);
}

/// Writes what row `row` of a head carries, beside row `place` of the output.
static void carry(KernelBuilder &k, const KernelSite &site, CompactOp op,
                  Expr sequence, Expr head, Expr row, Expr place) {
  SequenceScalars s = openHead(k, sequence, head);
  CarriedRows rows(k, sequence);
  PointEval eval(
      k, s,
      [&](Value v, const Point &p) { return readInput(k, s, site, v, p); },
      Point{head, -1, {}, row});
  for (auto [state, value] : llvm::enumerate(op.getCarried()))
    rows.store(int64_t(state), place, eval(value));
}

void kvc::buildCompact(KernelOp kernel, const KernelSite &site) {
  if (site.shape.into != Into::Packed)
    return buildPlace(kernel, site);
  int64_t width = site.shape.vectorWidth();
  int64_t pieces = site.shape.headDim / width;
  int64_t rows =
      std::max<int64_t>(1, compactThreads * piecesPerThread / pieces);
  const CacheSide sides[] = {CacheSide::Key, CacheSide::Value};
  LaunchSpec spec;
  addOwnArgs(kernel, site.shape, spec.args);
  spec.args.push_back("indices");
  Ragged::addArgs(spec.args);
  if (site.shape.hasRows()) {
    addArg(spec.args, "lengths");
    addArg(spec.args, "max_tokens");
    addArg(spec.args, "positions_out");
    addArg(spec.args, "status");
    addRowArgs(spec.args, site.shape);
  }
  auto op = *kernel.getBody().getOps<CompactOp>().begin();
  if (!op.getCarried().empty()) {
    for (const std::string &arg : bodyLaunch(kernel, site).args)
      addArg(spec.args, arg);
    CarriedRows::addArgs(spec.args);
  }
  spec.blockSize = compactThreads;
  spec.grid = {"ceildiv(index_capacity," + std::to_string(rows) + ")",
               "kv_heads", "batch"};
  KernelBuilder k(site.builder, site.name, site.shape, spec, site.scratch);

  Expr sequence = k.block(gpu::Dimension::z), head = k.block(gpu::Dimension::y);
  Expr capacity = k.arg("index_capacity"), thread = k.thread();
  Ragged kept(k, sequence, head);
  Expr first = k.block(gpu::Dimension::x) * rows;
  k.when((first == 0) & (thread == 0), [&] { kept.storeOffset(); });
  if (site.shape.hasRows())
    checkRows(k, sequence, head, (capacity + (rows - 1)) / rows);
  k.loop(thread, rows * pieces, compactThreads, [&](Expr piece) {
    Expr row = first + piece / pieces, dim = (piece % pieces) * width;
    k.when(kept.has(row), [&] {
      Expr token = keptAs(k, sequence, head, row);
      if (site.shape.hasRows())
        k.when(dim == 0, [&] {
          kept.storePosition(
              row, HeadRows(k, sequence, head, Expr()).position(token));
        });
      if (!op.getCarried().empty())
        k.when((dim == 0) & CarriedRows(k, sequence).wanted(), [&] {
          carry(k, site, op, sequence, head, token, kept.place(row));
        });
      for (int side : {0, 1})
        kept.store(side, row, dim,
                   k.loadVector(sideBuffer(k, sides[side]),
                                {sequence, head, token, dim}, width));
    });
  });
}
