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
// or above the diagonal, and writes those below it too. GramProducts.h adds them up.
// Shared memory: 32 KiB for that on tensor cores, and two numbers a warp. No stages:
// columns go straight into registers. Barriers: two a query head of the form on tensor
// cores, and six. Reads 64 channels of each column of the weights a block, writes
// d * d * bytes a form.
//
// G is written times a scale that brings its trace near 1, in the model's type; beside
// it the number of outputs / scale, the error of its sums, and each block's part of the
// trace and of the sum of squares, from which the error of G follows. Depends on the
// weights only.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Gram.h"

#include "codegen/kernels/GramProducts.h"
#include "codegen/kernels/ThreadBlock.h"

#include "llvm/Support/MathExtras.h"

#include <optional>

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// Elements of a tile along each side, and those of a thread.
static constexpr int64_t side = GramProducts::side, width = GramProducts::width;

static int64_t sidesOf(const Shape &shape) {
  return llvm::divideCeil(shape.headDim, side);
}

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
      : k(k), gram(gram), members(members), block(k, GramProducts::threads),
        hidden(k.arg("hidden")), sequence(k.block(gpu::Dimension::z)),
        head(k.block(gpu::Dimension::y)) {
    placeTile();
    products.emplace(k, sequence, origin[0], origin[1]);
  }

  void build() {
    Expr scale = sampleScale();
    Values sums =
        k.loop(0, members, 1, Values(width, k.f32(0)),
               [&](Expr member, ArrayRef<Expr> sums) {
                 Expr query = head * members + member;
                 Values next;
                 for (auto [sum, more] : llvm::zip(sums, products->of(query)))
                   next.push_back(sum + more);
                 return next;
               });
    store(sums, scale);
  }

private:
  KernelBuilder &k;
  const GramBuffers &gram;
  /// Query heads of the block's form.
  const int64_t members;
  ThreadBlock block;
  Expr hidden, sequence, head;
  /// First channels of the tile's rows and columns.
  Expr origin[2];
  std::optional<GramProducts> products;

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
    for (int64_t first = 0; first < count * d;
         first += GramProducts::threads * width) {
      Expr element = (k.thread() * width + first).min(k.index(count * d - 1));
      Expr sum = k.f32(0);
      Expr column = element / d * (hidden * members) / count;
      Expr query = head * members + column / hidden;
      for (Expr x : products->loadFour(query, column % hidden, element % d))
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

  void store(ArrayRef<Expr> sums, Expr scale) {
    int64_t d = k.shape.headDim;
    Expr squares = k.f32(0), trace = k.f32(0);
    Expr row = origin[0] + products->ownRow();
    Expr above = origin[0] < origin[1];
    for (int64_t e = 0; e < width; ++e) {
      Expr column = origin[1] + products->ownColumn() + e;
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
        k.store(products->errorOfSums(members), gram.sums,
                {sequence, head, behind, k.index(1)});
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
  spec.blockSize = GramProducts::threads;
  bool groups = GramBuffers::ofGroups(kernel->getParentOfType<PolicyOp>());
  spec.grid = {std::to_string(GramBuffers::blocks(site.shape)),
               groups ? "kv_heads" : "q_heads", "batch"};
  KernelBuilder k(site.builder, site.name, site.shape, spec, site.scratch);
  GramBuffers gram(k, out[0], out[1]);
  GramBuilder builder(k, gram, groups ? site.shape.group : 1);
  k.when(GramBuffers::isOwn(k, k.block(gpu::Dimension::z)),
         [&] { builder.build(); });
}
