//===- Gram.cpp - a quadratic form that bounds norms behind a projection --===//
//
// For one query head, W its d x D slice of the output projection, w_n its
// columns and c_n = ||w_n||_2:  by Cauchy and Schwarz
//
//   ||v W||_1 = sum_n sqrt(c_n) |v w_n| / sqrt(c_n)
//            <= sqrt(sum_n c_n) * sqrt(v G v),  G = sum_n w_n w_n^T / c_n
//
// grid (d^2 / 2048, Hq, batch), 256 threads with 8 elements of G each; all walk
// the columns of W, 256 at a time. G is written divided by sum c_n, which
// bounds its elements by 1, in the model's type; beside it sum c_n and each
// block's sum of squares, for the error of that type. Depends on the weights
// only.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Gram.h"

#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/ThreadBlock.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

static constexpr int64_t gramThreads = 256, elementsPerThread = 8;

using Values = KernelBuilder::Values;

int64_t GramBuffers::blocks(const Shape &shape) {
  return llvm::divideCeil(shape.headDim * shape.headDim,
                          gramThreads * elementsPerThread);
}

GramBuffers::GramBuffers(KernelBuilder &k, StringRef matrix, StringRef sums) {
  Expr heads = k.arg("kv_heads") * k.shape.group;
  Expr d = k.index(k.shape.headDim);
  this->matrix = k.buffer(matrix, {heads * d * d, d * d, d});
  this->sums = k.buffer(sums, {heads * d * 2, d * 2, k.index(2)});
}

void kvc::buildGram(KernelOp kernel, const KernelSite &site) {
  int64_t d = site.shape.headDim;
  SmallVector<std::string> out = outputBuffers(kernel);
  LaunchSpec spec;
  spec.args = {"kv_heads"};
  addOwnArgs(kernel, site.shape, spec.args);
  spec.args.insert(spec.args.end(), {out[0], out[1]});
  spec.blockSize = gramThreads;
  spec.grid = {std::to_string(GramBuffers::blocks(site.shape)), "q_heads",
               "batch"};
  KernelBuilder k(site.builder, site.name, site.shape, spec, site.scratch);
  ThreadBlock block(k, gramThreads);
  Buffer inverse = k.shared(k.b.getF32Type(), gramThreads);
  GramBuffers gram(k, out[0], out[1]);
  Buffer weights = projectionBuffer(k);

  Expr sequence = k.block(gpu::Dimension::z), head = k.block(gpu::Dimension::y);
  Expr part = k.block(gpu::Dimension::x), thread = k.thread();
  Expr hidden = k.arg("hidden"), zero = k.index(0);
  auto weight = [&](Expr output, Expr dim) {
    return k.load(weights, {sequence, head, output, dim}).widen();
  };
  Expr elements = k.index(d * d);
  SmallVector<Expr> element;
  for (int64_t j = 0; j < elementsPerThread; ++j)
    element.push_back(
        (part * (gramThreads * elementsPerThread) + thread + j * gramThreads)
            .min(elements - 1));

  Values start(elementsPerThread + 1, k.f32(0));
  Values sums = k.loop(
      zero, hidden, gramThreads, start,
      [&](Expr first, ArrayRef<Expr> carried) {
        Expr own = first + thread, exists = own < hidden;
        Expr safe = own.min(hidden - 1);
        Expr squares = k.fold(zero, d, 1, k.f32(0), [&](Expr dim, Expr acc) {
          Expr x = weight(safe, dim);
          return x.multiplyAdd(x, acc);
        });
        Expr norm = exists.select(k.sqrt(squares), k.f32(0));
        k.barrier(); // the last columns have been used
        k.store((norm > k.f32(0)).select(k.f32(1) / norm, k.f32(0)), inverse,
                {thread});
        k.barrier();
        Values next(carried.begin(), carried.end());
        next.back() = next.back() + norm;
        Expr count = (hidden - first).min(k.index(gramThreads));
        Values inner =
            k.loop(zero, count, 1, ArrayRef<Expr>(next).drop_back(),
                   [&](Expr n, ArrayRef<Expr> running) {
                     Values updated;
                     Expr scale = k.load(inverse, {n});
                     for (auto [at, sum] : llvm::zip(element, running))
                       updated.push_back(
                           (weight(first + n, at / d) * scale)
                               .multiplyAdd(weight(first + n, at % d), sum));
                     return updated;
                   });
        inner.push_back(next.back());
        return inner;
      });
  Expr total = block.reduce(ReduceKind::Sum, sums.back());
  Expr squares = k.f32(0);
  for (int64_t j = 0; j < elementsPerThread; ++j) {
    Expr at =
        part * (gramThreads * elementsPerThread) + thread + j * gramThreads;
    Expr value = (total > k.f32(0)).select(sums[j] / total, k.f32(0));
    Expr exists = at < elements;
    squares = exists.select(value.multiplyAdd(value, squares), squares);
    Expr narrow = value;
    if (k.shape.dtype != DType::F32)
      narrow = k.expr(arith::TruncFOp::create(
          k.b, k.shape.elementType(k.b.getContext()), value));
    k.when(exists, [&] {
      k.store(narrow, gram.matrix, {sequence, head, at / d, at % d});
    });
  }
  squares = block.reduce(ReduceKind::Sum, squares);
  k.when(thread == 0, [&] {
    k.store(total, gram.sums, {sequence, head, part, zero});
    k.store(squares, gram.sums, {sequence, head, part, k.index(1)});
  });
}
