//===- Compact.cpp - gather the kept rows into the ragged cache -----------===//
//
// grid (ceildiv(index_capacity, R), Hkv, batch), 128 threads; a thread moves
// four 16-byte pieces of K rows and of V rows at a time, R rows per block. Head
// after head, `slack` rows behind each. Reads and writes 2 * d * bytes per kept
// row, and what it carries. Of a cache of rows it looks at every row's position and
// pages, in the last blocks: the first ones have rows to move, and those between are
// done at once. No shared memory and no barriers: a thread reads all its pieces before it
// writes one.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/Ragged.h"
#include "codegen/kernels/RowStates.h"

using namespace mlir;
using namespace kvc;

namespace {

class CompactBuilder {
  static constexpr int64_t threads = 128;
  static constexpr int64_t piecesPerThread = 4;
  /// Rows that a thread looks at one after another, at least.
  static constexpr int64_t checksPerThread = 8;

  static int64_t piecesOf(const Shape &shape) {
    return shape.headDim / shape.vectorWidth();
  }
  static int64_t rowsOf(const Shape &shape) {
    return std::max<int64_t>(1, threads * piecesPerThread / piecesOf(shape));
  }

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec;
    addOwnArgs(kernel, site.shape, spec.args);
    spec.args.push_back("indices");
    Ragged::addArgs(spec.args);
    if (site.shape.hasRows()) {
      for (const char *arg :
           {"lengths", "max_tokens", "positions_out", "status"})
        addArg(spec.args, arg);
      addRowArgs(spec.args, site.shape);
    }
    if (!opOf(kernel).getCarried().empty()) {
      for (const std::string &arg : bodyLaunch(kernel, site).args)
        addArg(spec.args, arg);
      CarriedRows::addArgs(spec.args);
    }
    spec.blockSize = threads;
    spec.moves = true;
    spec.grid = {"ceildiv(index_capacity," +
                     std::to_string(rowsOf(site.shape)) + ")",
                 "kv_heads", "batch"};
    return spec;
  }

  static CompactOp opOf(KernelOp kernel) {
    return *kernel.getBody().getOps<CompactOp>().begin();
  }

public:
  CompactBuilder(KernelOp kernel, const KernelSite &site)
      : op(opOf(kernel)), site(site), k(site.builder, site.name, site.shape,
                                        launchOf(kernel, site), site.scratch),
        pieces(piecesOf(k.shape)), rows(rowsOf(k.shape)),
        sequence(k.block(gpu::Dimension::z)), head(k.block(gpu::Dimension::y)),
        block(k.block(gpu::Dimension::x)), thread(k.thread()) {}

  void build() {
    if (k.shape.hasRows())
      checkRows(blocksFor(k.arg("index_capacity")));
    Expr count = Ragged::countOf(k, sequence, head), one = k.index(1);
    // The first block has the head's offset to write, of no rows as well.
    k.when(block < blocksFor(count).max(one), [&] {
      Ragged kept(k, sequence, head, count);
      k.when((block == 0) & (thread == 0), [&] { kept.storeOffset(); });
      k.when(block * rows < kept.rows(), [&] { moveRows(kept); });
    });
  }

private:
  CompactOp op;
  const KernelSite &site;
  KernelBuilder k;
  /// Vectors of a row, and rows of a block.
  const int64_t pieces, rows;
  Expr sequence, head, block, thread;

  Expr blocksFor(Expr count) const { return (count + (rows - 1)) / rows; }

  /// Looks at all rows of the block's head, where it is one of the last of `blocks`,
  /// and tells of what is wrong with them.
  void checkRows(Expr blocks) {
    constexpr int64_t ofBlock = threads * checksPerThread;
    Expr length = k.load(k.buffer("lengths", {}), {sequence}).toIndex();
    HeadRows all(k, sequence, head, length);
    Expr wanted = (all.count() + (ofBlock - 1)) / ofBlock;
    Expr looking = wanted.max(k.index(1)).min(blocks);
    Expr number = blocks - 1 - block;
    k.when(number < looking,
           [&] { all.tell(number * threads + thread, looking * threads); });
  }

  /// A vector of a kept row: which of the head's, where in it, whose it was, and
  /// whether there is one.
  struct Piece {
    Expr row, dim, token, exists;
    Expr sides[2];
  };

  /// The block's rows. All are read before any is written; where there are no more, the
  /// last one is read again.
  void moveRows(Ragged &kept) {
    int64_t width = k.shape.vectorWidth();
    SmallVector<Piece> moved;
    for (int64_t done = 0; done < rows * pieces; done += threads) {
      Expr piece = thread + done;
      Expr row = block * rows + piece / pieces;
      Expr exists = kept.has(row);
      if (done + threads > rows * pieces)
        exists = exists & (piece < rows * pieces);
      Expr token = keptAs(k, sequence, head, row.min(kept.rows() - 1));
      moved.push_back({row, piece % pieces * width, token, exists, {}});
    }
    const CacheSide sides[] = {CacheSide::Key, CacheSide::Value};
    for (Piece &piece : moved)
      for (int side : {0, 1})
        piece.sides[side] =
            k.loadVector(sideBuffer(k, sides[side]),
                         {sequence, head, piece.token, piece.dim}, width);
    for (const Piece &piece : moved)
      k.when(piece.exists, [&] {
        for (int side : {0, 1})
          kept.store(side, piece.row, piece.dim, piece.sides[side]);
      });
    for (const Piece &piece : moved)
      k.when(piece.exists & (piece.dim == 0),
             [&] { writeNumbers(kept, piece.row, piece.token); });
  }

  /// What a row has beside its elements: its position, and what it carries.
  void writeNumbers(Ragged &kept, Expr row, Expr token) {
    if (k.shape.hasRows()) {
      HeadRows all(k, sequence, head, Expr());
      kept.storePosition(row, all.position(token));
    }
    if (!op.getCarried().empty())
      k.when(CarriedRows(k, sequence).wanted(),
             [&] { carry(token, kept.place(row)); });
  }

  /// Writes what row `row` of the head carries, beside row `place` of the output.
  void carry(Expr row, Expr place) {
    SequenceScalars s = openHead(k, sequence, head);
    CarriedRows carried(k, sequence);
    PointEval eval(
        k, s,
        [&](Value v, const Point &p) { return readInput(k, s, site, v, p); },
        Point{head, -1, {}, row});
    for (auto [state, value] : llvm::enumerate(op.getCarried()))
      carried.store(int64_t(state), place, eval(value));
  }
};

} // namespace

void kvc::buildCompact(KernelOp kernel, const KernelSite &site) {
  if (site.shape.into != Into::Packed)
    return buildPlace(kernel, site);
  CompactBuilder(kernel, site).build();
}
