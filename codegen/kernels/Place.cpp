//===- Place.cpp - kept rows into the slots of a view ---------------------===//
//
// The view may be the cache that is read: then rows move within their head, toward
// slot 0 or toward the tail, and no row is written before the one that lies there has
// been read. So a block walks the kept rows of a head in order, a tile at a time: all
// threads read the tile, a barrier, all write it. Blocks share the rows of a head by
// channels.
//
// grid (1 + 2 G, Hkv, batch), 128 threads. Blocks 1 to G move 64-byte pieces of K rows,
// the others of V rows, 16 bytes a thread, four rows of each thread in flight. Block 0
// looks at the head's rows, and moves what rows carry and their positions. Within pages one
// more looks for a page that is another list's (SharedPages.h: 17 KiB of shared memory,
// which is all that the kernel has). One barrier a tile, in block 0 up to two more. Reads
// 2 * d * bytes per kept row, and writes as much per row that moves; rows that lie where
// they belong are not touched.
//
// Behind kvc.merge (Merge.cpp) rows that go into another view are there already, and
// have what they carry: positions are left to write.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/IntoRows.h"
#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/SharedPages.h"
#include "kvc/artifact.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

namespace {

using Values = KernelBuilder::Values;

class PlaceBuilder {
  static constexpr int64_t threads = 128;
  static constexpr int64_t inFlight = 4;
  static constexpr int64_t blockBytes = 64;

  /// Vectors of a row that a block moves.
  static int64_t piecesOf(const Shape &shape) {
    int64_t ofBlock =
        blockBytes / (shape.vectorWidth() * shape.bytesPerElement());
    return std::min(shape.headDim / shape.vectorWidth(), ofBlock);
  }
  static int64_t blocksOf(const Shape &shape) {
    return llvm::divideCeil(shape.headDim,
                            piecesOf(shape) * shape.vectorWidth());
  }
  /// What rows carry: made here, or by those that they were merged by.
  static ValueRange carriedBy(KernelOp kernel) {
    if (merges(kernel))
      return (*kernel.getBody().getOps<MergeOp>().begin()).getCarried();
    return (*kernel.getBody().getOps<CompactOp>().begin()).getCarried();
  }

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec;
    if (merges(kernel))
      spec.args = sequenceArgs(site.shape);
    else
      spec = bodyLaunch(kernel, site);
    for (CacheSide side : {CacheSide::Key, CacheSide::Value})
      addSideArgs(spec.args, site.shape, side);
    addArg(spec.args, "indices");
    IntoRows::addArgs(spec.args, site.shape, !carriedBy(kernel).empty());
    spec.blockSize = threads;
    spec.overwrites = spec.moves = true;
    int64_t blocks = 1 + 2 * blocksOf(site.shape);
    if (SharedPages::mayBe(site.shape)) {
      SharedPages::addArgs(spec.args);
      ++blocks;
    }
    spec.grid = {std::to_string(blocks), "kv_heads", "batch"};
    return spec;
  }

public:
  PlaceBuilder(KernelOp kernel, const KernelSite &site)
      : merged(merges(kernel)), carried(carriedBy(kernel)), site(site),
        k(site.builder, site.name, site.shape, launchOf(kernel, site),
          site.scratch),
        sequence(k.block(gpu::Dimension::z)), head(k.block(gpu::Dimension::y)),
        length(k.load(k.buffer("lengths", {}), {sequence}).toIndex()),
        into(k, sequence, head, [this](Expr h) { return rowsOf(h).count(); }) {}

  void build() {
    Expr block = k.block(gpu::Dimension::x);
    int64_t blocks = blocksOf(k.shape);
    auto isOf = [&](Expr side) {
      return merged ? side & into.isCache() : side;
    };
    k.when(block == 0, [&] { moveNumbers(); });
    k.when(isOf((block > 0) & (block < blocks + 1)),
           [&] { moveElements(CacheSide::Key, block - 1); });
    k.when(isOf((block > blocks) & (block < 2 * blocks + 1)),
           [&] { moveElements(CacheSide::Value, block - (1 + blocks)); });
    if (!SharedPages::mayBe(k.shape))
      return;
    SharedPages shared(k, sequence, head, threads, [this](Expr s, Expr h) {
      return HeadRows(k, s, h, length);
    });
    k.when(block == 2 * blocks + 1, [&] { shared.tell(); });
  }

private:
  const bool merged;
  const ValueRange carried;
  const KernelSite &site;
  KernelBuilder k;
  Expr sequence, head, length;
  IntoRows into;

  HeadRows rowsOf(Expr h) { return {k, sequence, h, length}; }

  /// Runs over the kept rows in tiles of `rows` * `count`, the thread over row `mine` of
  /// each `rows`: load(row, token) of a whole tile comes before store(row, token,
  /// loaded) of any of its rows, and that before the next tile's.
  void
  move(Expr fromLast, Expr mine, int64_t rows, int64_t count,
       llvm::function_ref<Values(Expr row, Expr token)> load,
       llvm::function_ref<void(Expr row, Expr token, ArrayRef<Expr>)> store) {
    Expr tiles = (into.count() + (rows * count - 1)) / (rows * count);
    k.loop(0, tiles, 1, [&](Expr i) {
      Expr tile = fromLast.select(tiles - 1 - i, i);
      SmallVector<Expr> at, tokens;
      SmallVector<Values> loaded;
      for (int64_t step = 0; step < count; ++step) {
        Expr row = tile * (rows * count) + (mine + rows * step);
        at.push_back(row);
        // Of rows behind the last one, it is that one that is read.
        Expr there = row.min(into.count() - 1);
        tokens.push_back(keptAs(k, sequence, head, there));
        loaded.push_back(load(there, tokens.back()));
      }
      k.barrier();
      for (int64_t step = 0; step < count; ++step)
        store(at[step], tokens[step], loaded[step]);
    });
  }

  void moveElements(CacheSide side, Expr block) {
    int64_t width = k.shape.vectorWidth(), pieces = piecesOf(k.shape);
    int64_t rows = threads / pieces;
    Expr own = k.thread() % pieces, dim = (block * pieces + own) * width;
    Expr takesPart = (k.thread() < rows * pieces) & (dim < k.shape.headDim);
    Expr from = dim.min(k.index(k.shape.headDim - width));
    Buffer memory = sideBuffer(k, side);
    Expr slot = rowsOf(head).firstSlot();
    move(
        into.fromLast(), k.thread() / pieces, rows, inFlight,
        [&](Expr, Expr token) {
          return Values{
              k.loadVector(memory, {sequence, head, token, from}, width)};
        },
        [&](Expr row, Expr token, ArrayRef<Expr> vector) {
          k.when(takesPart & into.fits(row), [&] {
            Expr moves = into.stays(row, token, slot) == k.boolean(false);
            k.when(moves, [&] {
              into.store(side == CacheSide::Value, into.placeOf(row), dim,
                         vector[0]);
            });
          });
        });
  }

  void moveNumbers() {
    k.when(k.thread() == 0, [&] { into.storeOffset(); });
    if (k.shape.hasRows()) {
      rowsOf(head).tell(k.thread(), k.index(threads), /*inFlight=*/8);
      k.barrier(); // behind it positions change
    }
    if (!carried.empty()) {
      Expr wanted = k.arg("carries") > 0;
      k.when(merged ? wanted & into.carriesInPlace() : wanted,
             [&] { moveStates(); });
    }
    movePositions();
  }

  /// What rows carry may look at their positions, so it comes first.
  void moveStates() {
    SequenceScalars s = openHead(k, sequence, head);
    move(
        into.fromLast("states"), k.thread(), threads, 1,
        [&](Expr, Expr token) { return numbersOf(s, token); },
        [&](Expr row, Expr, ArrayRef<Expr> numbers) {
          k.when(into.fits(row), [&] {
            for (auto [state, number] : llvm::enumerate(numbers))
              into.storeState(int64_t(state), into.placeOf(row), number);
          });
        });
    k.barrier();
  }

  /// What a row of the cache carries on.
  Values numbersOf(const SequenceScalars &s, Expr token) {
    Values numbers;
    if (merged) {
      IntoRows::Place own{token, rowsOf(head).firstSlot() + token};
      for (size_t state = 0; state < carried.size(); ++state)
        numbers.push_back(into.state(int64_t(state), own));
      return numbers;
    }
    auto leaf = [&](Value v, const Point &p) {
      return readInput(k, s, site, v, p);
    };
    PointEval eval(k, s, leaf, Point{head, -1, {}, token});
    for (Value value : carried)
      numbers.push_back(eval(value));
    return numbers;
  }

  void movePositions() {
    move(
        into.fromLast("positions"), k.thread(), threads, 1,
        [&](Expr, Expr token) { return Values{rowsOf(head).position(token)}; },
        [&](Expr row, Expr, ArrayRef<Expr> position) {
          Expr fits = into.fits(row);
          k.when(fits, [&] { into.storePosition(row, position[0]); });
          k.when(into.hasSlot(row) & (fits == k.boolean(false)),
                 [&] { k.setStatus(KVC_DATA_CACHE); });
        });
  }
};

} // namespace

void kvc::buildPlace(KernelOp kernel, const KernelSite &site) {
  PlaceBuilder(kernel, site).build();
}
