//===- ProjectedNorm.cpp - norms of values behind the output projection ---===//

#include "codegen/kernels/ProjectedNorm.h"

#include "codegen/kernels/Gram.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// Adds the sizes of 16 outputs; without `exists` all of them exist.
static Values addOutputs(KernelBuilder &k, WarpProduct &product,
                         const Buffer &memory, WarpProduct::Address address,
                         bool l2, ArrayRef<Expr> sums,
                         llvm::function_ref<Expr(Expr row)> exists) {
  Values next(sums.begin(), sums.end());
  product.multiply(memory, address, [&](const WarpProduct::Product &p) {
    Expr size = l2 ? p.value * p.value : p.value.unary<math::AbsFOp>();
    if (exists)
      size = exists(p.row).select(size, k.f32(0));
    next[p.columnSlot] = next[p.columnSlot] + size;
  });
  return next;
}

Expr kvc::projectedNorm(KernelBuilder &k, ProjectedNormOp op,
                        const SequenceScalars &s, WarpProduct &product,
                        Expr head, const Buffer &columnSums,
                        StagedRows *staged) {
  Buffer weights = projectionBuffer(k);
  Expr hidden = k.arg("hidden");
  bool l2 = op.getKind() == NormKind::L2;
  Values zeros(product.slots(), k.f32(0)), sums;
  auto rowsFrom = [&](Expr output) {
    return [=](Expr row) { return output + row < hidden; };
  };
  if (staged) {
    RowSource source = {
        weights,
        [&](Expr row) { return SmallVector<Expr>{s.sequence, head, row}; },
        hidden, 1, k.arg("wo_row")};
    sums = staged->walk(
        source, k.index(0), zeros,
        [&](Expr first, Expr place, ArrayRef<Expr> carried) {
          auto add = [&](llvm::function_ref<Expr(Expr)> exists) {
            return addOutputs(
                k, product, staged->memory,
                [&](Expr row) { return SmallVector<Expr>{place + row}; }, l2,
                carried, exists);
          };
          return k.choose(
              first + WarpProduct::rows <= hidden, [&] { return add(nullptr); },
              [&] { return add(rowsFrom(first)); });
        });
  } else {
    sums = k.loop(0, hidden, WarpProduct::rows, zeros,
                  [&](Expr output, ArrayRef<Expr> carried) {
                    return addOutputs(
                        k, product, weights,
                        [&](Expr row) {
                          return SmallVector<Expr>{
                              s.sequence, head, (output + row).min(hidden - 1)};
                        },
                        l2, carried, rowsFrom(output));
                  });
  }
  Expr sum = product.columnSums(sums, columnSums);
  return l2 ? k.sqrt(sum) : sum;
}

/// The elements of columns that go with products of a lane: of so many in a row, for
/// each lane of a quad, the lane takes the row's number as the channel.
static int64_t ownWidth(const Shape &shape) {
  return shape.headDim % 32 ? 4 : 8;
}

/// What the lane's columns have from `base` on at its `ownWidth` channels, by slot.
static Values ownElements(KernelBuilder &k, const SequenceScalars &s,
                          WarpProduct &product, const Point &point, Expr base,
                          llvm::function_ref<Expr(Expr)> tokenOf) {
  int64_t width = ownWidth(k.shape);
  Values own;
  for (int slot = 0; slot < product.slots(); ++slot)
    own.push_back(
        k.loadVector(sideBuffer(k, CacheSide::Value),
                     {s.sequence, point.kvHead, tokenOf(product.columnOf(slot)),
                      base + k.lane() % 4 * width},
                     width));
  return own;
}

/// v G v of the lane's own value, which is one of the product's columns.
static Expr quadraticForm(KernelBuilder &k, const Buffer &matrix,
                          const SequenceScalars &s, WarpProduct &product,
                          const Point &point, Expr head,
                          llvm::function_ref<Expr(Expr)> tokenOf,
                          const Buffer &columnSums) {
  int64_t d = k.shape.headDim, width = ownWidth(k.shape);
  Values zeros(product.slots(), k.f32(0));
  if (k.shape.usesTensorCores()) {
    // Rows of G are taken in an order in which a lane's products are those of the
    // elements that it has read, 16 bytes at a time.
    auto channelOf = [&](Expr row) {
      return row % 8 / 2 * width + (row / 8 * 2 + row % 2);
    };
    Values sums =
        k.loop(0, d, 4 * width, zeros, [&](Expr base, ArrayRef<Expr> carried) {
          Values next(carried.begin(), carried.end());
          Values own = ownElements(k, s, product, point, base, tokenOf);
          for (int64_t first = 0; first < width; first += 4)
            product.multiply(
                matrix,
                [&](Expr row) {
                  return SmallVector<Expr>{s.sequence, head,
                                           base + (channelOf(row) + first)};
                },
                [&](const WarpProduct::Product &p) {
                  Expr v = k.element(own[p.columnSlot], first + p.rowSlot);
                  Expr &sum = next[p.columnSlot];
                  sum = p.value.multiplyAdd(v.widen(), sum);
                });
          return next;
        });
    return product.columnSums(sums, columnSums);
  }
  Buffer values = sideBuffer(k, CacheSide::Value);
  Values sums = k.loop(
      0, d, WarpProduct::rows, zeros, [&](Expr base, ArrayRef<Expr> carried) {
        Values next(carried.begin(), carried.end());
        product.multiply(
            matrix,
            [&](Expr row) {
              return SmallVector<Expr>{s.sequence, head,
                                       (base + row).min(k.index(d - 1))};
            },
            [&](const WarpProduct::Product &p) {
              Expr dim = base + p.row, safe = dim.min(k.index(d - 1));
              Expr v = k.load(values, {s.sequence, point.kvHead,
                                       tokenOf(p.column), safe})
                           .widen();
              Expr &sum = next[p.columnSlot];
              sum = (dim < d).select(p.value.multiplyAdd(v, sum), sum);
            });
        return next;
      });
  return product.columnSums(sums, columnSums);
}

Expr kvc::squaredNorm(KernelBuilder &k, const SequenceScalars &s,
                      WarpProduct &product, const Point &point,
                      llvm::function_ref<Expr(Expr)> tokenOf,
                      const Buffer &columnSums) {
  int64_t width = ownWidth(k.shape);
  if (k.shape.usesTensorCores()) {
    Values sums =
        k.loop(0, k.shape.headDim, 4 * width, Values(product.slots(), k.f32(0)),
               [&](Expr base, ArrayRef<Expr> carried) {
                 Values next(carried.begin(), carried.end());
                 Values own = ownElements(k, s, product, point, base, tokenOf);
                 for (auto [vector, sum] : llvm::zip(own, next))
                   for (int64_t e = 0; e < width; ++e) {
                     Expr v = k.element(vector, e).widen();
                     sum = v.multiplyAdd(v, sum);
                   }
                 return next;
               });
    return product.columnSums(sums, columnSums);
  }
  Buffer values = sideBuffer(k, CacheSide::Value);
  return k.fold(0, k.shape.headDim, 1, k.f32(0), [&](Expr dim, Expr acc) {
    Expr v =
        k.load(values, {s.sequence, point.kvHead, point.token, dim}).widen();
    return v.multiplyAdd(v, acc);
  });
}

Expr kvc::projectedNormBound(KernelBuilder &k, ProjectedNormOp op,
                             const KernelSite &site, const SequenceScalars &s,
                             WarpProduct &product, const Point &point,
                             Expr head, llvm::function_ref<Expr(Expr)> tokenOf,
                             const Buffer &columnSums, Expr squares) {
  auto name = [&](int i) {
    auto arg = cast<BlockArgument>(op.getGram()[i]);
    return site.inputs[arg.getArgNumber()];
  };
  GramBuffers gram(k, name(0), name(1));
  int64_t d = k.shape.headDim;
  Expr form = quadraticForm(k, gram.matrix, s, product, point, head, tokenOf,
                            columnSums);
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
