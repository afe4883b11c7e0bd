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

Values kvc::projectedNorm(KernelBuilder &k, ProjectedNormOp op,
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
    // Beside two tiles of shorter columns the assembler would move the loads of four
    // steps to the front, and registers spill; long ones leave it no room to.
    int64_t together = product.tiles == 1 || k.shape.headDim > 96 ? 4 : 2;
    sums = staged->walkTogether(
        source, k.index(0), together, zeros,
        [&](Expr first, Expr place, ArrayRef<Expr> carried, bool whole) {
          auto address = [&](Expr row) {
            return SmallVector<Expr>{place + row};
          };
          if (whole)
            return addOutputs(k, product, staged->memory, address, l2, carried,
                              nullptr);
          return addOutputs(k, product, staged->memory, address, l2, carried,
                            rowsFrom(first));
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
  Values norms;
  int slots = product.slotsOfTile();
  for (int64_t tile = 0; tile < product.tiles; ++tile) {
    Expr sum = product.columnSums(ArrayRef(sums).slice(tile * slots, slots),
                                  columnSums);
    norms.push_back(l2 ? k.sqrt(sum) : sum);
  }
  return norms;
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

/// Rows of G are taken in an order in which a lane's products are those of the
/// elements that it has of its columns: the channel of the i-th one.
static Expr channelOf(Expr i, int64_t width) {
  Expr row = i % 16, base = i / (4 * width) * (4 * width);
  Expr first = i % (4 * width) / 16 * 4;
  return base + first + (row % 8 / 2 * width + (row / 8 * 2 + row % 2));
}

/// v G v and ||v||^2 of the lane's own value, which is one of the product's columns. The
/// block's warps read G together where it is `staged`.
static std::pair<Expr, Expr>
quadraticForm(KernelBuilder &k, const Buffer &matrix, const SequenceScalars &s,
              WarpProduct &product, const Point &point, Expr head,
              llvm::function_ref<Expr(Expr)> tokenOf, const Buffer &columnSums,
              StagedRows *staged) {
  int64_t d = k.shape.headDim, width = ownWidth(k.shape);
  int slots = product.slots();
  Values sums(2 * slots, k.f32(0)); // of the form by slot, then of squares
  auto rowOf = [&](Expr i) {
    return SmallVector<Expr>{s.sequence, head, channelOf(i, width)};
  };
  // The product's row is that of element `v` of its column.
  auto add = [&](Values &sums, const WarpProduct::Product &p, Expr v) {
    Expr &form = sums[p.columnSlot], &squares = sums[slots + p.columnSlot];
    form = p.value.multiplyAdd(v, form);
    squares = v.multiplyAdd(v, squares);
  };
  if (staged && product.holdsColumns()) {
    RowSource source = {matrix, rowOf, k.index(d), 0, {}};
    sums = staged->walkKnown(
        source, d, sums,
        [&](int64_t first, Expr place, ArrayRef<Expr> carried) {
          Values next(carried.begin(), carried.end());
          int64_t base = first / (4 * width) * (4 * width);
          k.syncWarp(); // or all rows would be loaded before the first are used
          product.multiply(
              staged->memory,
              [&](Expr row) { return SmallVector<Expr>{place + row}; },
              [&](const WarpProduct::Product &p) {
                add(next, p,
                    product.heldElement(p.columnSlot, base,
                                        first % (4 * width) / 4 + p.rowSlot));
              });
          return next;
        });
  } else if (k.shape.usesTensorCores()) {
    sums =
        k.loop(0, d, 4 * width, sums, [&](Expr base, ArrayRef<Expr> carried) {
          Values next(carried.begin(), carried.end());
          Values own = ownElements(k, s, product, point, base, tokenOf);
          for (int64_t first = 0; first < 4 * width; first += 16)
            product.multiply(
                matrix, [&](Expr row) { return rowOf(base + (row + first)); },
                [&](const WarpProduct::Product &p) {
                  add(next, p,
                      k.element(own[p.columnSlot], first / 4 + p.rowSlot)
                          .widen());
                });
          return next;
        });
  } else {
    Buffer values = sideBuffer(k, CacheSide::Value);
    sums = k.loop(
        0, d, WarpProduct::rows, sums, [&](Expr base, ArrayRef<Expr> carried) {
          Values next(carried.begin(), carried.end());
          auto inside = [&](Expr row) {
            return (base + row).min(k.index(d - 1));
          };
          product.multiply(
              matrix,
              [&](Expr row) {
                return SmallVector<Expr>{s.sequence, head, inside(row)};
              },
              [&](const WarpProduct::Product &p) {
                Expr v = k.load(values, {s.sequence, point.kvHead,
                                         tokenOf(p.column), inside(p.row)})
                             .widen();
                add(next, p, (base + p.row < d).select(v, k.f32(0)));
              });
          return next;
        });
  }
  auto sumOf = [&](int first) {
    return product.columnSums(ArrayRef(sums).slice(first, slots), columnSums);
  };
  Expr form = sumOf(0), squares = sumOf(slots);
  return {form, squares};
}

Expr kvc::projectedNormBound(KernelBuilder &k, ProjectedNormOp op,
                             const KernelSite &site, const SequenceScalars &s,
                             WarpProduct &product, const Point &point,
                             Expr head, llvm::function_ref<Expr(Expr)> tokenOf,
                             const Buffer &columnSums, StagedRows *staged) {
  auto name = [&](int i) {
    auto arg = cast<BlockArgument>(op.getGram()[i]);
    return site.inputs[arg.getArgNumber()];
  };
  GramBuffers gram(k, name(0), name(1));
  int64_t d = k.shape.headDim;
  int64_t parts = GramBuffers::blocks(k.shape);
  auto sumOf = [&](int64_t part, int64_t i) {
    return k.load(gram.sums, {s.sequence, head, k.index(part), k.index(i)});
  };
  Expr trace = k.f32(0), frobenius = k.f32(0);
  for (int64_t part = 0; part < parts; ++part) {
    trace = trace + sumOf(part, 0);
    frobenius = frobenius + sumOf(part, 1);
  }
  Expr total = sumOf(parts, 0);
  auto [form, squares] = quadraticForm(k, gram.matrix, s, product, point, head,
                                       tokenOf, columnSums, staged);
  double unit = k.shape.dtype == DType::F32   ? 0
                : k.shape.dtype == DType::F16 ? 0x1p-11
                                              : 0x1p-8;
  // G's elements are rounded to their type, and are sums of D products, each at most
  // the root of two elements of the diagonal.
  Expr error = k.sqrt(frobenius) * k.f32(unit + 0x1p-13) +
               trace * sumOf(parts, 1) + k.f32(double(d) * 0x1p-24);
  Expr square = error.multiplyAdd(squares, form).max(k.f32(0));
  int64_t members = GramBuffers::ofGroups(op->getParentOfType<PolicyOp>())
                        ? k.shape.group
                        : 1;
  return k.sqrt(total * square) * k.f32((1 + 0x1p-10) / double(members));
}
