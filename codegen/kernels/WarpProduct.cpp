//===- WarpProduct.cpp - a warp multiplies 16 rows with 32 columns --------===//

#include "codegen/kernels/WarpProduct.h"

#include "codegen/simt/SIMT.h"

using namespace mlir;
using namespace kvc;

SmallVector<std::pair<int64_t, int64_t>> WarpProduct::chunks() const {
  // Each of the four lanes of a quad takes `width` elements in a row. The order
  // of the products within a dot product is free, so rows and columns only have
  // to agree on it, and both are read 16 bytes at a time where possible.
  SmallVector<std::pair<int64_t, int64_t>> result;
  int64_t dim = 0;
  for (; dim + 32 <= k.shape.headDim; dim += 32)
    result.push_back({dim, 8});
  if (dim < k.shape.headDim)
    result.push_back({dim, 4});
  return result;
}

Expr WarpProduct::loadPart(const Buffer &memory, SmallVector<Expr> at, Expr dim,
                           int64_t width) {
  at.push_back(dim);
  return k.loadVector(memory, at, width);
}

void WarpProduct::loadColumns(const Buffer &memory,
                              std::function<SmallVector<Expr>(Expr)> address) {
  columnMemory = memory;
  columnAddress = std::move(address);
  fragments.clear();
  if (!k.shape.usesTensorCores() || streams)
    return;
  for (int64_t block = 0; block < columns / 8; ++block)
    fragments.push_back(loadFragment(block));
}

SmallVector<Expr> WarpProduct::loadFragment(int64_t block) {
  Expr lane = k.lane(), quad = lane % 4;
  SmallVector<Expr> at = columnAddress(lane / 4 + block * 8), registers;
  for (auto [dim, width] : chunks())
    registers.append(
        k.registers(loadPart(columnMemory, at, quad * width + dim, width)));
  return registers;
}

void WarpProduct::multiply(
    const Buffer &memory, Address address,
    llvm::function_ref<void(Expr, Expr, Expr, int)> visit) {
  Expr lane = k.lane();
  if (k.shape.usesTensorCores()) {
    Expr quad = lane % 4, low = lane / 4;
    if (streams)
      k.syncWarp(); // or rows would be loaded before the last ones are used
    SmallVector<SmallVector<Expr>, 2> halves;
    for (int64_t half : {0, 8}) {
      SmallVector<Expr> at = address(low + half), registers;
      for (auto [dim, width] : chunks())
        registers.append(
            k.registers(loadPart(memory, at, quad * width + dim, width)));
      halves.push_back(registers);
    }
    // Two registers of each row are one step of 16 products.
    SmallVector<Value> a;
    for (size_t r = 0; r < halves[0].size(); r += 2)
      a.append(
          {halves[0][r], halves[1][r], halves[0][r + 1], halves[1][r + 1]});
    Type f32 = k.b.getF32Type();
    for (int64_t block = 0; block < columns / 8; ++block) {
      if (streams)
        k.syncWarp(); // or all loads would be moved to the front
      SmallVector<Expr> fragment =
          streams ? loadFragment(block) : fragments[block];
      SmallVector<Value> bFragment(fragment.begin(), fragment.end());
      Value zero = k.f32(0);
      auto mma = simt::MmaOp::create(k.b, SmallVector<Type>(4, f32), a,
                                     bFragment, zero, zero, zero, zero,
                                     k.shape.elementType(k.b.getContext()));
      for (int64_t r = 0; r < 4; ++r)
        visit(k.expr(mma.getResult(r)), low + (r / 2) * 8,
              quad * 2 + (int64_t(block) * 8 + r % 2),
              int(block) * 2 + int(r % 2));
    }
    return;
  }
  // Lane = column; the 16 rows are read at addresses that all lanes share.
  int64_t width = k.shape.vectorWidth();
  SmallVector<Expr> column = columnAddress(lane);
  SmallVector<SmallVector<Expr>> at;
  for (int64_t row = 0; row < rows; ++row)
    at.push_back(address(k.index(row)));
  SmallVector<Expr> zeros(rows, k.f32(0));
  auto dots = k.loop(
      0, k.shape.headDim, width, zeros, [&](Expr dim, ArrayRef<Expr> carried) {
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
  for (int64_t row = 0; row < rows; ++row)
    visit(dots[row], k.index(row), lane, 0);
}

Expr WarpProduct::columnOf(int slot) {
  if (!k.shape.usesTensorCores())
    return k.lane();
  return k.lane() % 4 * 2 + (slot / 2 * 8 + slot % 2);
}

SmallVector<Expr> WarpProduct::acrossLanes(
    SmallVector<Expr> values,
    llvm::function_ref<SmallVector<Expr>(ArrayRef<Expr>, ArrayRef<Expr>)>
        combine) {
  if (!k.shape.usesTensorCores())
    return values;
  for (int64_t mask = 4; mask < warpSize; mask *= 2) { // eight lanes
    SmallVector<Expr> others;
    for (Expr value : values)
      others.push_back(k.shuffleXor(value, mask));
    values = combine(values, others);
  }
  return values;
}

Expr WarpProduct::ownsColumns() {
  return k.shape.usesTensorCores() ? k.lane() < 4 : k.boolean(true);
}

Expr WarpProduct::columnSums(ArrayRef<Expr> slots, const Buffer &memory) {
  if (!k.shape.usesTensorCores())
    return slots[0];
  SmallVector<Expr> sums =
      acrossLanes(SmallVector<Expr>(slots), [](auto a, auto b) {
        SmallVector<Expr> sum;
        for (auto [x, y] : llvm::zip(a, b))
          sum.push_back(x + y);
        return sum;
      });
  k.syncWarp(); // earlier sums have been read
  k.when(ownsColumns(), [&] {
    for (auto [slot, sum] : llvm::enumerate(sums))
      k.store(sum, memory, {k.warp(), columnOf(int(slot))});
  });
  k.syncWarp();
  return k.load(memory, {k.warp(), k.lane()});
}
