//===- ProjectedNorm.cpp - norms of values behind the output projection ---===//

#include "codegen/kernels/ProjectedNorm.h"

#include "codegen/kernels/Gram.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

Expr kvc::projectedNorm(KernelBuilder &k, ProjectedNormOp op,
                        const SequenceScalars &s, WarpProduct &product,
                        Expr head, const Buffer &columnSums) {
  Buffer weights = projectionBuffer(k);
  Expr hidden = k.arg("hidden");
  bool l2 = op.getKind() == NormKind::L2;
  Values sums = k.loop(
      0, hidden, WarpProduct::rows, Values(product.slots(), k.f32(0)),
      [&](Expr output, ArrayRef<Expr> carried) {
        Values next(carried.begin(), carried.end());
        product.multiply(
            weights,
            [&](Expr row) {
              return SmallVector<Expr>{s.sequence, head,
                                       (output + row).min(hidden - 1)};
            },
            [&](Expr x, Expr row, Expr, int slot) {
              Expr size = l2 ? x * x : x.unary<math::AbsFOp>();
              next[slot] =
                  next[slot] + (output + row < hidden).select(size, k.f32(0));
            });
        return next;
      });
  Expr sum = product.columnSums(sums, columnSums);
  return l2 ? k.sqrt(sum) : sum;
}

Expr kvc::projectedNormBound(KernelBuilder &k, ProjectedNormOp op,
                             const KernelSite &site, const SequenceScalars &s,
                             WarpProduct &product, const Point &point,
                             Expr head, llvm::function_ref<Expr(Expr)> tokenOf,
                             const Buffer &columnSums) {
  auto name = [&](int i) {
    auto arg = cast<BlockArgument>(op.getGram()[i]);
    return site.inputs[arg.getArgNumber()];
  };
  GramBuffers gram(k, name(0), name(1));
  Buffer values = sideBuffer(k, CacheSide::Value);
  int64_t d = k.shape.headDim;
  Values sums = k.loop(
      0, d, WarpProduct::rows, Values(product.slots(), k.f32(0)),
      [&](Expr base, ArrayRef<Expr> carried) {
        Values next(carried.begin(), carried.end());
        product.multiply(
            gram.matrix,
            [&](Expr row) {
              return SmallVector<Expr>{s.sequence, head,
                                       (base + row).min(k.index(d - 1))};
            },
            [&](Expr x, Expr row, Expr column, int slot) {
              Expr dim = base + row, safe = dim.min(k.index(d - 1));
              Expr v = k.load(values,
                              {s.sequence, point.kvHead, tokenOf(column), safe})
                           .widen();
              next[slot] =
                  (dim < d).select(x.multiplyAdd(v, next[slot]), next[slot]);
            });
        return next;
      });
  Expr form = product.columnSums(sums, columnSums);
  Expr squares = k.fold(0, d, 1, k.f32(0), [&](Expr dim, Expr acc) {
    Expr v =
        k.load(values, {s.sequence, point.kvHead, point.token, dim}).widen();
    return v.multiplyAdd(v, acc);
  });
  Expr frobenius = k.f32(0);
  for (int64_t part = 0; part < GramBuffers::blocks(k.shape); ++part)
    frobenius = frobenius + k.load(gram.sums, {s.sequence, head, k.index(part),
                                               k.index(1)});
  Expr total = k.load(gram.sums, {s.sequence, head, k.index(0), k.index(0)});
  double unit = k.shape.dtype == DType::F32   ? 0
                : k.shape.dtype == DType::F16 ? 0x1p-11
                                              : 0x1p-8;
  Expr error =
      k.sqrt(frobenius) * k.f32(unit + 0x1p-13) + k.f32(double(d) * 0x1p-24);
  Expr square = error.multiplyAdd(squares, form).max(k.f32(0));
  return total * k.sqrt(square) * k.f32(1 + 0x1p-10);
}
