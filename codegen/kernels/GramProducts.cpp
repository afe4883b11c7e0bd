//===- GramProducts.cpp ---------------------------------------------------===//

#include "codegen/kernels/GramProducts.h"

#include "codegen/kernels/Kernels.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

GramProducts::GramProducts(KernelBuilder &k, Expr sequence, Expr row,
                           Expr column)
    : k(k), weights(projectionBuffer(k)), hidden(k.arg("hidden")),
      sequence(sequence), origin{row, column} {
  if (k.shape.usesTensorCores())
    ofWarps = k.shared(k.b.getF32Type(), warps * side * side,
                       {k.index(side * side), k.index(side), k.index(width)});
}

Values GramProducts::of(Expr query) {
  return k.shape.usesTensorCores() ? multiply(query) : addProducts(query);
}

Values GramProducts::loadFour(Expr query, Expr n, Expr channel) {
  int64_t d = k.shape.headDim;
  Values four;
  if (d % width == 0) {
    Expr vector = k.loadVector(
        weights, {sequence, query, n, channel.min(k.index(d - width))}, width);
    for (int64_t e = 0; e < width; ++e)
      four.push_back(k.element(vector, e).widen());
    return four;
  }
  for (int64_t e = 0; e < width; ++e)
    four.push_back(
        k.load(weights, {sequence, query, n, (channel + e).min(k.index(d - 1))})
            .widen());
  return four;
}

//===--- tensor cores -----------------------------------------------------===//

Values GramProducts::multiply(Expr query) {
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
Values GramProducts::loadColumns(Expr query, Expr first, bool all) {
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
Expr GramProducts::pairOf(ArrayRef<Expr> loaded, int64_t sideOfTile,
                          int64_t half, int64_t e) {
  size_t at = size_t(((sideOfTile * 2 + half) * 2) * 2 + e / 2);
  Expr low = loaded[at], high = loaded[at + 2];
  return e % 2 ? (low >> 16) | (high & k.i32(-0x10000))
               : (low & k.i32(0xffff)) | (high << k.i32(16));
}

Values GramProducts::addStep(ArrayRef<Expr> loaded, ArrayRef<Expr> sums) {
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

/// Of eight lanes that store 16 bytes together, four have every second four columns of a
/// row, and four the same of a row that lies over the same banks: there two neighbours
/// have changed places.
Values GramProducts::acrossWarps(ArrayRef<Expr> sums) {
  k.barrier(); // another member's sums have been read
  Expr low = k.lane() / 4 * width, quad = k.lane() % 4 * 2;
  for (int64_t row = 0; row < width; ++row)
    for (int64_t next = 0; next < 2; ++next) {
      Values four;
      for (int64_t e = 0; e < width; ++e)
        four.push_back(
            sums[size_t((row / 2 * width + e) * 4 + row % 2 * 2 + next)]);
      k.storeVector(
          k.vectorOf(four), ofWarps,
          {k.warp(), low + row, placeOf(low, quad + next), k.index(0)});
    }
  k.barrier();
  Values total(width, k.f32(0));
  for (int64_t warp = 0; warp < warps; ++warp) {
    Expr four =
        k.loadVector(ofWarps,
                     {k.index(warp), ownRow(),
                      placeOf(ownRow(), ownColumn() / width), k.index(0)},
                     width);
    for (int64_t e = 0; e < width; ++e)
      total[e] = total[e] + k.element(four, e);
  }
  return total;
}

//===--- other shapes -----------------------------------------------------===//

Values GramProducts::addProducts(Expr query) {
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

/// Tensor cores may cut what they add at the last bits of the largest of it.
Expr GramProducts::errorOfSums(int64_t members) {
  if (!k.shape.usesTensorCores())
    return (hidden.toFloat() + k.f32(members)) * k.f32(0x1p-24);
  return (hidden.toFloat() * k.f32(1.0 / (warps * step)) +
          k.f32(warps + members)) *
         k.f32(0x1p-19);
}
