//===- Gram.cpp - a quadratic form that bounds norms behind a projection --===//
//
// For one query head, W its d x D slice of the output projection, w_n its
// columns and c_n = ||w_n||_2:  by Cauchy and Schwarz
//
//   ||v W||_1 = sum_n sqrt(c_n) |v w_n| / sqrt(c_n)
//            <= sqrt(sum_n c_n) * sqrt(v G v),  G = sum_n w_n w_n^T / c_n
//
// grid (tiles of G, Hq, batch), 128 threads: a block has 64 x 64 elements of G, a
// thread 4 x 8 of these in registers. All blocks walk the columns of W, 32 at a
// time: warps read them whole, 16 bytes to a lane, make c_n by shuffles and put the
// tile's two sides into shared memory in f32, one of them divided by c_n; 16 KiB,
// two barriers a step. From there a thread takes 12 numbers for 32 products.
// Each block reads W, from L2 but for the first.
//
// G is written divided by sum c_n, which bounds its elements by 1, in the model's
// type; beside it sum c_n and each block's sum of squares, for the error of that
// type. Depends on the weights only.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Gram.h"

#include "codegen/kernels/LaneRows.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

namespace {

constexpr int64_t gramThreads = 128;
/// Elements of a tile along each side, those of a thread, and columns of W a step.
constexpr int64_t side = 64, high = 4, wide = 8, step = 32;
static_assert(side / high * (side / wide) == gramThreads);

int64_t tilesOf(const Shape &shape) {
  return llvm::divideCeil(shape.headDim, side);
}

} // namespace

int64_t GramBuffers::blocks(const Shape &shape) {
  return tilesOf(shape) * tilesOf(shape);
}

GramBuffers::GramBuffers(KernelBuilder &k, StringRef matrix, StringRef sums) {
  Expr heads = k.arg("kv_heads") * k.shape.group;
  Expr d = k.index(k.shape.headDim);
  this->matrix = k.buffer(matrix, {heads * d * d, d * d, d});
  this->sums = k.buffer(sums, {heads * d * 2, d * 2, k.index(2)});
}

namespace {

class GramBuilder {
public:
  GramBuilder(KernelBuilder &k, const GramBuffers &gram)
      : k(k), gram(gram), weights(projectionBuffer(k)), block(k, gramThreads),
        rows(k) {
    for (Buffer &memory : sides)
      memory = k.shared(k.b.getF32Type(), step * side, {k.index(side)});
    Expr tile = k.block(gpu::Dimension::x);
    origin[0] = tile / tilesOf(k.shape) * side;
    origin[1] = tile % tilesOf(k.shape) * side;
    place[0] = k.thread() / (side / wide) * high;
    place[1] = k.thread() % (side / wide) * (wide / 2);
  }

  void build() {
    Values start(high * wide + 1, k.f32(0));
    Values sums =
        k.loop(0, hidden, step, start, [&](Expr first, ArrayRef<Expr> carried) {
          k.barrier(); // the last columns have been used
          Expr norms = stage(first, carried.back());
          k.barrier();
          Values next = multiply(carried.drop_back());
          next.push_back(norms);
          return next;
        });
    // Each row of lanes has added up the norms of its columns.
    Expr once = (k.lane() % rows.lanes == 0).select(sums.back(), k.f32(0));
    store(sums, block.reduce(ReduceKind::Sum, once));
  }

private:
  KernelBuilder &k;
  const GramBuffers &gram;
  Buffer weights;
  ThreadBlock block;
  LaneRows rows;
  std::array<Buffer, 2> sides; // [column of W][place in the tile]
  std::array<Expr, 2> origin, place;
  Expr sequence = k.block(gpu::Dimension::z), head = k.block(gpu::Dimension::y),
       hidden = k.arg("hidden");

  /// Puts columns from `first` on into shared memory; returns the sum of norms with
  /// those of the lane's columns.
  Expr stage(Expr first, Expr norms) {
    int64_t atOnce = gramThreads / warpSize * rows.perWarp();
    int64_t times = llvm::divideCeil(step, atOnce);
    // All of them are in flight before the first is used.
    Values columns, vectors;
    for (int64_t time = 0; time < times; ++time) {
      columns.push_back(k.warp() * rows.perWarp() + rows.row() + time * atOnce);
      Expr output = (first + columns.back()).min(hidden - 1);
      for (int64_t access = 0; access < rows.accesses; ++access)
        vectors.push_back(k.loadVector(
            weights, {sequence, head, output, rows.first(access)}, rows.width));
    }
    Values inverses;
    for (int64_t time = 0; time < times; ++time) {
      Expr squares = k.f32(0);
      for (int64_t access = 0; access < rows.accesses; ++access) {
        Expr sum = squares, own = rows.isOwn(access);
        for (int64_t e = 0; e < rows.width; ++e) {
          Expr x = elementOf(vectors[time * rows.accesses + access], e);
          sum = x.multiplyAdd(x, sum);
        }
        squares = own.valid() ? own.select(sum, squares) : sum;
      }
      for (int64_t mask = rows.lanes / 2; mask; mask /= 2)
        squares = squares + k.shuffleXor(squares, mask);
      Expr exists = (first + columns[time] < hidden) & (columns[time] < step);
      Expr norm = exists.select(k.sqrt(squares), k.f32(0));
      norms = norms + norm;
      // What does not exist is multiplied by 0.
      inverses.push_back((norm > k.f32(0)).select(k.f32(1) / norm, k.f32(0)));
    }
    for (int64_t access = 0; access < rows.accesses; ++access)
      for (int n = 0; n < 2; ++n) {
        Expr to = rows.first(access) - origin[n], own = rows.isOwn(access);
        Expr inside = (to >= 0) & (to < side) & (columns[0] < step);
        k.when(own.valid() ? own & inside : inside, [&] {
          for (int64_t time = 0; time < times; ++time)
            for (int64_t e = 0; e < rows.width; ++e) {
              Expr x = elementOf(vectors[time * rows.accesses + access], e);
              k.store(n ? x : x * inverses[time], sides[n],
                      {columns[time], to + e});
            }
        });
      }
    return norms;
  }

  Expr elementOf(Expr vector, int64_t e) {
    return k.element(vector, e).widen();
  }

  /// Adds the products of the columns that are staged.
  Values multiply(ArrayRef<Expr> sums) {
    constexpr int64_t together = 8;
    return k.loop(
        0, step, together, sums, [&](Expr first, ArrayRef<Expr> carried) {
          Values next(carried.begin(), carried.end());
          for (int64_t n = 0; n < together; ++n) {
            Values left = take(0, first + n, high),
                   right = take(1, first + n, wide);
            for (int64_t i = 0; i < high * wide; ++i)
              next[i] = left[i / wide].multiplyAdd(right[i % wide], next[i]);
          }
          return next;
        });
  }

  Values take(int n, Expr column, int64_t count) {
    constexpr int64_t width = 4;
    Values values;
    for (int64_t i = 0; i < count; i += width) {
      Expr vector =
          k.loadVector(sides[n], {column, place[n] + placeOf(i)}, width);
      for (int64_t e = 0; e < width; ++e)
        values.push_back(k.element(vector, e));
    }
    return values;
  }

  /// Where a thread's `i`-th element lies behind its first: four in a row, the next
  /// four half a tile on, so that neighbours take from all banks.
  static int64_t placeOf(int64_t i) { return i / 4 * (side / 2) + i % 4; }

  void store(ArrayRef<Expr> sums, Expr total) {
    int64_t d = k.shape.headDim;
    Expr squares = k.f32(0);
    for (int64_t i = 0; i < high * wide; ++i) {
      Expr row = origin[0] + place[0] + i / wide,
           column = origin[1] + place[1] + placeOf(i % wide);
      Expr value = (total > k.f32(0)).select(sums[i] / total, k.f32(0));
      Expr exists = (row < d) & (column < d);
      squares = exists.select(value.multiplyAdd(value, squares), squares);
      Expr element = k.narrow(value);
      k.when(exists, [&] {
        k.store(element, gram.matrix, {sequence, head, row, column});
      });
    }
    squares = block.reduce(ReduceKind::Sum, squares);
    Expr part = k.block(gpu::Dimension::x);
    k.when(k.thread() == 0, [&] {
      k.store(total, gram.sums, {sequence, head, part, k.index(0)});
      k.store(squares, gram.sums, {sequence, head, part, k.index(1)});
    });
  }
};

} // namespace

void kvc::buildGram(KernelOp kernel, const KernelSite &site) {
  SmallVector<std::string> out = outputBuffers(kernel);
  LaunchSpec spec;
  spec.args = {"kv_heads"};
  addOwnArgs(kernel, site.shape, spec.args);
  spec.args.insert(spec.args.end(), {out[0], out[1]});
  spec.blockSize = gramThreads;
  spec.grid = {std::to_string(GramBuffers::blocks(site.shape)), "q_heads",
               "batch"};
  KernelBuilder k(site.builder, site.name, site.shape, spec, site.scratch);
  GramBuffers gram(k, out[0], out[1]);
  GramBuilder(k, gram).build();
}
