//===- Gram.cpp - a quadratic form that bounds norms behind a projection --===//
//
// For one query head, W its d x D slice of the output projection and w_n its
// columns:  by Cauchy and Schwarz
//
//   ||v W||_1 = sum_n |v w_n| <= sqrt(D) * sqrt(v G v),  G = sum_n w_n w_n^T
//
// The same holds for the outputs of a group together, whose sum is as much as their
// mean asks for: the form is that of a group where nothing else is asked for.
//
// grid (tiles, Hq or Hkv, batch), 256 threads: a block has 32 x 32 elements of G, on
// or above the diagonal, and writes those below it too. Warps share the columns of W,
// 16 of them a step, and read what a step needs straight into registers: the columns
// are what is summed over, so a register of a matrix fragment has an element of each
// of two columns. The warps' sums are added in shared memory, 36 KiB, in their order;
// two barriers a query head. Shapes without tensor cores add products one by one, 4
// elements to a thread.
//
// G is written times a scale that brings its trace near 1, in the model's type; beside
// it the number of outputs / scale, the error of its sums, and each block's part of the
// trace and of the sum of squares, from which the error of G follows. Depends on the
// weights only.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Gram.h"

#include "codegen/kernels/ThreadBlock.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

namespace {

constexpr int64_t warps = 8, gramThreads = warps * warpSize;
/// Elements of a tile along each side, those of a thread, and of an access.
constexpr int64_t side = 32, width = 4;
static_assert(side * side == gramThreads * width);
/// Columns of W that a step of a warp adds.
constexpr int64_t step = 16;

int64_t sidesOf(const Shape &shape) {
  return llvm::divideCeil(shape.headDim, side);
}

} // namespace

int64_t GramBuffers::blocks(const Shape &shape) {
  return sidesOf(shape) * (sidesOf(shape) + 1) / 2;
}

bool GramBuffers::ofGroups(PolicyOp policy) {
  WalkResult result = policy.walk([](ProjectedNormOp norm) {
    bool alone =
        norm.getBound() && !llvm::all_of(norm->getUsers(), [](Operation *user) {
          auto reduce = dyn_cast<ReduceOp>(user);
          return reduce && reduce.getAxis() == ReduceAxis::Group &&
                 reduce.getKind() == ReduceKind::Mean;
        });
    return alone ? WalkResult::interrupt() : WalkResult::advance();
  });
  return !result.wasInterrupted();
}

GramBuffers::GramBuffers(KernelBuilder &k, StringRef matrix, StringRef sums) {
  Expr heads = k.arg("kv_heads") * k.shape.group;
  Expr d = k.index(k.shape.headDim);
  auto ofSequence = [&](Expr elements) {
    return (k.arg("wo_batch") == 0).select(k.index(0), elements);
  };
  this->matrix = k.buffer(matrix, {ofSequence(heads * d * d), d * d, d});
  this->sums = k.buffer(sums, {ofSequence(heads * d * 2), d * 2, k.index(2)});
}

Expr GramBuffers::isOwn(KernelBuilder &k, Expr sequence) {
  return (k.arg("wo_batch") == 0).select(sequence == 0, k.boolean(true));
}

namespace {

class GramBuilder {
public:
  GramBuilder(KernelBuilder &k, const GramBuffers &gram, int64_t members)
      : k(k), gram(gram), members(members), weights(projectionBuffer(k)),
        block(k, gramThreads), hidden(k.arg("hidden")),
        sequence(k.block(gpu::Dimension::z)), head(k.block(gpu::Dimension::y)) {
    if (k.shape.usesTensorCores())
      ofWarps = k.shared(k.b.getF32Type(), warps * side * pitch,
                         {k.index(side * pitch), k.index(pitch)});
    placeTile();
  }

  void build() {
    Expr scale = sampleScale();
    Values sums = k.loop(0, members, 1, Values(width, k.f32(0)),
                         [&](Expr member, ArrayRef<Expr> sums) {
                           Expr query = head * members + member;
                           Values own = k.shape.usesTensorCores()
                                            ? multiply(query)
                                            : addProducts(query);
                           Values next;
                           for (auto [sum, more] : llvm::zip(sums, own))
                             next.push_back(sum + more);
                           return next;
                         });
    store(sums, scale);
  }

private:
  /// Floats of a row of a warp's sums: 16 bytes of it are aligned.
  static constexpr int64_t pitch = side + 4;

  KernelBuilder &k;
  const GramBuffers &gram;
  /// Query heads of the block's form.
  const int64_t members;
  Buffer weights;
  ThreadBlock block;
  Expr hidden, sequence, head;
  Buffer ofWarps;
  /// First channels of the tile's rows and columns.
  Expr origin[2];

  /// Tiles are numbered row by row, each row from the diagonal on.
  void placeTile() {
    int64_t sides = sidesOf(k.shape);
    Expr tile = k.block(gpu::Dimension::x), row = k.index(0), column = tile;
    for (int64_t i = 1, first = sides; i < sides; first += sides - i, ++i) {
      Expr behind = tile >= first;
      row = behind.select(k.index(i), row);
      column = behind.select(tile - first + i, column);
    }
    origin[0] = row * side;
    origin[1] = column * side;
  }

  /// Of 32 columns, spread over all: the same in every block.
  Expr sampleScale() {
    int64_t d = k.shape.headDim, count = 32;
    Expr squares = k.f32(0);
    for (int64_t first = 0; first < count * d; first += gramThreads * width) {
      Expr element = (k.thread() * width + first).min(k.index(count * d - 1));
      Expr sum = k.f32(0);
      Expr column = element / d * (hidden * members) / count;
      Expr query = head * members + column / hidden;
      for (Expr x : loadFour(query, column % hidden, element % d))
        sum = x.multiplyAdd(x, sum);
      Expr exists = k.thread() * width + first < k.index(count * d);
      squares = squares + exists.select(sum, k.f32(0));
    }
    squares = block.reduce(ReduceKind::Sum, squares);
    Expr scale = k.f32(count) / (squares * outputs());
    Expr usable = (scale > k.f32(1e-30)) & (scale < k.f32(1e30));
    return usable.select(scale, k.f32(1));
  }

  /// How many there are, of all members.
  Expr outputs() { return hidden.toFloat() * k.f32(members); }

  /// Of column `n` the channels from `channel` on, or, at the end, the last ones.
  Values loadFour(Expr query, Expr n, Expr channel) {
    int64_t d = k.shape.headDim;
    Values four;
    if (d % width == 0) {
      Expr vector = k.loadVector(
          weights, {sequence, query, n, channel.min(k.index(d - width))},
          width);
      for (int64_t e = 0; e < width; ++e)
        four.push_back(k.element(vector, e).widen());
      return four;
    }
    for (int64_t e = 0; e < width; ++e)
      four.push_back(k.load(weights, {sequence, query, n,
                                      (channel + e).min(k.index(d - 1))})
                         .widen());
    return four;
  }

  //===--- tensor cores ---------------------------------------------------===//

  /// The elements of the thread, `width` of a row.
  Values multiply(Expr query) {
    Expr whole = hidden / step * step;
    auto add = [&](Expr end, bool all) {
      return [=, this](Expr first, ArrayRef<Expr> sums) {
        return k.stream(
            first + k.warp() * step, end, warps * step, sums,
            [&](Expr column) { return loadColumns(query, column, all); },
            [&](Expr, ArrayRef<Expr> loaded, ArrayRef<Expr> sums) {
              return addStep(loaded, sums);
            },
            /*together=*/2);
      };
    };
    Values zeros(side * side / warpSize, k.f32(0));
    Values sums = add(whole, true)(k.index(0), zeros);
    sums = add(hidden, false)(whole, sums);
    return acrossWarps(sums);
  }

  /// What the lane needs of 16 columns from `first` on: of each of its four columns
  /// four channels on either side of the tile, two in a register.
  Values loadColumns(Expr query, Expr first, bool all) {
    int64_t last = k.shape.headDim - width;
    Values loaded;
    for (const Expr &channel : origin)
      for (int64_t half = 0; half < 2; ++half)
        for (int64_t next = 0; next < 2; ++next) {
          Expr column = first + k.lane() % 4 * 2 + (half * 8 + next);
          Expr own = (channel + k.lane() / 4 * width).min(k.index(last));
          Expr there = all ? column : column.min(hidden - 1);
          for (Expr pair : k.registers(
                   k.loadVector(weights, {sequence, query, there, own}, width)))
            loaded.push_back(all ? pair
                                 : (column < hidden).select(pair, k.i32(0)));
        }
    return loaded;
  }

  /// Channel `e` of the lane's four, of two columns beside each other.
  Expr pairOf(ArrayRef<Expr> loaded, int64_t sideOfTile, int64_t half,
              int64_t e) {
    size_t at = size_t(((sideOfTile * 2 + half) * 2) * 2 + e / 2);
    Expr low = loaded[at], high = loaded[at + 2];
    return e % 2 ? (low >> 16) | (high & k.i32(-0x10000))
                 : (low & k.i32(0xffff)) | (high << k.i32(16));
  }

  Values addStep(ArrayRef<Expr> loaded, ArrayRef<Expr> sums) {
    Type f32 = k.b.getF32Type();
    Values next;
    SmallVector<Value> columns[width];
    for (int64_t e = 0; e < width; ++e)
      columns[e] = {pairOf(loaded, 1, 0, e), pairOf(loaded, 1, 1, e)};
    for (int64_t row = 0; row < 2; ++row) {
      SmallVector<Value> rows;
      for (int64_t half = 0; half < 2; ++half)
        for (int64_t e = 0; e < 2; ++e)
          rows.push_back(pairOf(loaded, 0, half, row * 2 + e));
      for (int64_t e = 0; e < width; ++e) {
        ArrayRef<Expr> c = sums.slice((row * width + e) * 4, 4);
        auto op = simt::MmaOp::create(k.b, SmallVector<Type>(4, f32), rows,
                                      columns[e], c[0], c[1], c[2], c[3],
                                      k.shape.elementType(k.b.getContext()));
        for (Value sum : op.getResults())
          next.push_back(k.expr(sum));
      }
    }
    return next;
  }

  Values acrossWarps(ArrayRef<Expr> sums) {
    k.barrier(); // another member's sums have been read
    Expr low = k.lane() / 4 * width, quad = k.lane() % 4 * 2;
    for (auto [i, sum] : llvm::enumerate(sums)) {
      int64_t at = i % 4, e = int64_t(i) / 4 % width, row = int64_t(i) / 16;
      k.store(
          sum, ofWarps,
          {k.warp(), low + (row * 2 + at / 2), (quad + at % 2) * width + e});
    }
    k.barrier();
    Values total(width, k.f32(0));
    for (int64_t warp = 0; warp < warps; ++warp) {
      Expr four =
          k.loadVector(ofWarps, {k.index(warp), ownRow(), ownColumn()}, width);
      for (int64_t e = 0; e < width; ++e)
        total[e] = total[e] + k.element(four, e);
    }
    return total;
  }

  //===--- other shapes ---------------------------------------------------===//

  Values addProducts(Expr query) {
    Expr row = (origin[0] + ownRow()).min(k.index(k.shape.headDim - 1));
    Expr column = origin[1] + ownColumn();
    return k.stream(
        k.index(0), hidden, 1, Values(width, k.f32(0)),
        [&](Expr n) {
          Values made = loadFour(query, n, column);
          made.push_back(k.load(weights, {sequence, query, n, row}).widen());
          return made;
        },
        [&](Expr, ArrayRef<Expr> made, ArrayRef<Expr> sums) {
          Values next;
          for (int64_t e = 0; e < width; ++e)
            next.push_back(made[width].multiplyAdd(made[e], sums[e]));
          return next;
        });
  }

  //===--- what is written ------------------------------------------------===//

  /// Of an element, over the sum of its products' sizes. Tensor cores may cut what
  /// they add at the last bits of the largest of it.
  Expr errorOfSums() {
    if (!k.shape.usesTensorCores())
      return (hidden.toFloat() + k.f32(members)) * k.f32(0x1p-24);
    return (hidden.toFloat() * k.f32(1.0 / (warps * step)) +
            k.f32(warps + members)) *
           k.f32(0x1p-19);
  }

  /// Of the tile.
  Expr ownRow() { return k.thread() / (side / width); }
  Expr ownColumn() { return k.thread() % (side / width) * width; }

  void store(ArrayRef<Expr> sums, Expr scale) {
    int64_t d = k.shape.headDim;
    Expr squares = k.f32(0), trace = k.f32(0);
    Expr row = origin[0] + ownRow();
    Expr above = origin[0] < origin[1];
    for (int64_t e = 0; e < width; ++e) {
      Expr column = origin[1] + ownColumn() + e;
      Expr value = sums[e] * scale;
      Expr exists = (row < d) & (column < d);
      Expr zero = k.f32(0);
      squares = exists.select(value.multiplyAdd(value, squares), squares);
      trace = trace + (exists & (row == column)).select(value, zero);
      // Narrowed where it is stored: LLVM would take a bf16 there by a function of
      // a library.
      k.when(exists, [&] {
        k.store(k.narrow(value), gram.matrix, {sequence, head, row, column});
      });
      k.when(exists & above, [&] {
        k.store(k.narrow(value), gram.matrix, {sequence, head, column, row});
      });
    }
    squares = block.reduce(ReduceKind::Sum,
                           squares * above.select(k.f32(2), k.f32(1)));
    trace = block.reduce(ReduceKind::Sum, trace);
    Expr part = k.block(gpu::Dimension::x);
    k.when(k.thread() == 0, [&] {
      k.store(trace, gram.sums, {sequence, head, part, k.index(0)});
      k.store(squares, gram.sums, {sequence, head, part, k.index(1)});
      k.when(part == 0, [&] {
        Expr behind = k.index(GramBuffers::blocks(k.shape));
        k.store(outputs() / scale, gram.sums,
                {sequence, head, behind, k.index(0)});
        k.store(errorOfSums(), gram.sums, {sequence, head, behind, k.index(1)});
      });
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
  bool groups = GramBuffers::ofGroups(kernel->getParentOfType<PolicyOp>());
  spec.grid = {std::to_string(GramBuffers::blocks(site.shape)),
               groups ? "kv_heads" : "q_heads", "batch"};
  KernelBuilder k(site.builder, site.name, site.shape, spec, site.scratch);
  GramBuffers gram(k, out[0], out[1]);
  GramBuilder builder(k, gram, groups ? site.shape.group : 1);
  k.when(GramBuffers::isOwn(k, k.block(gpu::Dimension::z)),
         [&] { builder.build(); });
}
