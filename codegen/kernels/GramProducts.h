//===- GramProducts.h - a tile of a Gram matrix, by one block -------------===//

#ifndef KVC_CODEGEN_KERNELS_GRAMPRODUCTS_H
#define KVC_CODEGEN_KERNELS_GRAMPRODUCTS_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

/// Sums over all columns of a query head's weights (wo, [sequence][query head]
/// [column][channel]) of the products of two channels: 32 x 32 elements, 4 of a row to
/// a thread. Warps share the columns, 16 of them a step, and read what a step needs
/// straight into registers: the columns are what is summed over, so a register of a
/// matrix fragment has an element of each of two columns. The warps' sums are added in
/// shared memory, 32 KiB, in their order; two barriers a query head. Shapes without
/// tensor cores add products one by one.
class GramProducts {
public:
  using Values = KernelBuilder::Values;
  static constexpr int64_t warps = 8, threads = warps * warpSize;
  /// Elements of a tile along each side, those of a thread, and of an access.
  static constexpr int64_t side = 32, width = 4;
  static_assert(side * side == threads * width);
  /// Columns that a step of a warp adds.
  static constexpr int64_t step = 16;

  /// Of the channels from `row` and from `column` on.
  GramProducts(KernelBuilder &k, Expr sequence, Expr row, Expr column);

  /// The thread's elements, f32.
  Values of(Expr query);
  /// Its row and its first column in the tile.
  Expr ownRow() { return k.thread() / (side / width); }
  Expr ownColumn() { return k.thread() % (side / width) * width; }
  /// Of column `n` the channels from `channel` on, or, at the end, the last ones; f32.
  Values loadFour(Expr query, Expr n, Expr channel);
  /// The error of an element over the sum of its products' sizes, where the elements of
  /// so many query heads are added.
  Expr errorOfSums(int64_t members);

private:
  KernelBuilder &k;
  Buffer weights;
  Buffer ofWarps; // [warp][row][four columns, placeOf][column of them]
  Expr hidden, sequence;
  /// First channels of the tile's rows and columns.
  Expr origin[2];

  Values multiply(Expr query);
  Values loadColumns(Expr query, Expr first, bool all);
  Expr pairOf(llvm::ArrayRef<Expr> loaded, int64_t sideOfTile, int64_t half,
              int64_t e);
  Values addStep(llvm::ArrayRef<Expr> loaded, llvm::ArrayRef<Expr> sums);
  /// Where four columns of a row lie in `ofWarps`.
  Expr placeOf(Expr row, Expr four) { return four ^ (row / width % 2); }
  Values acrossWarps(llvm::ArrayRef<Expr> sums);
  Values addProducts(Expr query);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_GRAMPRODUCTS_H
