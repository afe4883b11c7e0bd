//===- WarpDots.cpp - the same in fp32, without tensor cores --------------===//
//
// A lane has a column and its dot products with the rows: on a GPU with all 16 of them,
// of which each element is read once for the warp; on the host (docs/host.md) two rows
// at a time, with the column copied once into the lane's own memory.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/WarpProduct.h"

using namespace mlir;
using namespace kvc;

SmallVector<Expr> WarpProduct::dotsOnGPU(const Buffer &memory,
                                         Address address) {
  // Lane = column; the 16 rows are read at addresses that all lanes share.
  int64_t width = k.shape.vectorWidth();
  SmallVector<Expr> column = columnAddress(k.lane());
  SmallVector<SmallVector<Expr>> at;
  for (int64_t row = 0; row < rows; ++row)
    at.push_back(address(k.index(row)));
  SmallVector<Expr> zeros(rows, k.f32(0));
  return k.loop(0, k.shape.headDim, width, zeros,
                [&](Expr dim, ArrayRef<Expr> carried) {
                  Expr mine = loadPart(columnMemory, column, dim, width);
                  KernelBuilder::Values sums(carried.begin(), carried.end());
                  for (int64_t row = 0; row < rows; ++row) {
                    Expr other = loadPart(memory, at[row], dim, width);
                    for (int64_t e = 0; e < width; ++e)
                      sums[row] = k.element(other, e).widen().multiplyAdd(
                          k.element(mine, e).widen(), sums[row]);
                  }
                  return sums;
                });
}

void WarpProduct::copyColumn() {
  if (!ownColumn.memref) {
    ownColumn = k.own(k.b.getF32Type(), k.shape.headDim);
    ownDots = k.own(k.b.getF32Type(), rows);
  }
  auto copy = [&] {
    int64_t width = k.shape.vectorWidth();
    SmallVector<Expr> column = columnAddress(k.lane());
    k.loop(0, k.shape.headDim, width, [&](Expr dim) {
      Expr part = loadPart(columnMemory, column, dim, width);
      for (int64_t e = 0; e < width; ++e)
        k.store(k.element(part, e).widen(), ownColumn, {dim + e});
    });
    return KernelBuilder::Values();
  };
  k.eitherForm(copy, [] { return KernelBuilder::Values(); });
}

void WarpProduct::prefetchRow(const Buffer &memory, ArrayRef<Expr> at) {
  constexpr int64_t lineBytes = 64;
  k.loop(0, k.shape.headDim, lineBytes / k.shape.bytesPerElement(),
         [&](Expr dim) {
           SmallVector<Expr> line(at);
           line.push_back(dim);
           k.prefetch(memory, line);
         });
}

SmallVector<Expr> WarpProduct::dotsOnHost(const Buffer &memory,
                                          Address address) {
  // AVX2 has 16 registers: eight hold the sums of two rows, four the columns.
  constexpr int64_t together = 2;
  int64_t width = k.shape.vectorWidth();
  k.loop(0, rows, together, [&](Expr row) {
    SmallVector<SmallVector<Expr>> at;
    for (int64_t i = 0; i < together; ++i) {
      at.push_back(address(row + i));
      prefetchRow(memory, address(row + (together + i)));
    }
    SmallVector<Expr> zeros(together, k.f32(0));
    auto dots = k.loop(
        0, k.shape.headDim, width, zeros,
        [&](Expr dim, ArrayRef<Expr> carried) {
          KernelBuilder::Values sums(carried.begin(), carried.end());
          for (int64_t e = 0; e < width; ++e) {
            Expr mine = k.load(ownColumn, {dim + e});
            for (int64_t i = 0; i < together; ++i) {
              SmallVector<Expr> other = at[i];
              other.push_back(dim + e);
              sums[i] =
                  k.load(memory, other).widen().multiplyAdd(mine, sums[i]);
            }
          }
          return sums;
        });
    for (int64_t i = 0; i < together; ++i)
      k.store(dots[i], ownDots, {row + i});
  });
  SmallVector<Expr> dots;
  for (int64_t row = 0; row < rows; ++row)
    dots.push_back(k.load(ownDots, {k.index(row)}));
  return dots;
}
