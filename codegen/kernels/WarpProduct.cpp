//===- WarpProduct.cpp - a warp multiplies 16 rows with 32 columns --------===//

#include "codegen/kernels/WarpProduct.h"

#include "codegen/simt/SIMT.h"

using namespace mlir;
using namespace kvc;

SmallVector<std::pair<int64_t, int64_t>> WarpProduct::accesses() const {
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
                              std::function<SmallVector<Expr>(Expr)> address,
                              ArrayRef<Expr> fetched) {
  columnMemory = memory;
  columnAddress = std::move(address);
  fragments.clear();
  if (!k.shape.usesTensorCores())
    return copyColumn();
  if (streams)
    return;
  size_t each = fetched.size() / columnBlocks();
  for (int64_t block = 0; block < columnBlocks(); ++block)
    fragments.push_back(
        mixed(each ? SmallVector<Expr>(fetched.slice(block * each, each))
                   : columnFragment(block)));
}

SmallVector<Expr> WarpProduct::fetchColumns(const Buffer &memory,
                                            Address address) {
  assert(k.shape.usesTensorCores() && !streams && "columns are in registers");
  SmallVector<Expr> fetched;
  for (int64_t block = 0; block < columnBlocks(); ++block)
    fetched.append(columnFragment(memory, address, block));
  return fetched;
}

SmallVector<Expr> WarpProduct::mixed(const SmallVector<Expr> &loaded) {
  if (!unknownZero.valid())
    return loaded;
  auto mix = [&](Expr part) { return part ^ unknownZero; };
  return k.eitherForm([&] { return loaded; },
                      [&] { return llvm::map_to_vector(loaded, mix); });
}

SmallVector<Expr> WarpProduct::columnFragment(const Buffer &memory,
                                              Address address, int64_t block) {
  return columnsLeft ? leftFragment(memory, address, block * 16)
                     : rightFragment(memory, address, block * 8);
}

Expr WarpProduct::heldElement(int slot, int64_t base, int64_t e) {
  // As leftFragment puts registers of two columns beside each other.
  int64_t part = base / (4 * heldWidth) * (heldWidth / 2) + e / 2;
  Expr pair = fragments[slot / 2][part / 2 * 4 + part % 2 * 2 + slot % 2];
  if (k.shape.dtype == DType::BF16) { // the upper half of its f32
    Expr bits = e % 2 ? pair & k.i32(-0x10000) : pair << k.i32(16);
    return bits.asFloat();
  }
  Expr bits = e % 2 ? pair >> 16 : pair;
  Value half = arith::TruncIOp::create(k.b, k.b.getI16Type(), bits);
  return k.expr(arith::BitcastOp::create(k.b, k.b.getF16Type(), half)).widen();
}

SmallVector<Expr> WarpProduct::rightFragment(const Buffer &memory,
                                             Address address, int64_t first) {
  Expr lane = k.lane(), quad = lane % 4;
  SmallVector<Expr> at = address(lane / 4 + first), registers;
  for (auto [dim, width] : accesses())
    registers.append(
        k.registers(loadPart(memory, at, quad * width + dim, width)));
  return registers;
}

SmallVector<Expr> WarpProduct::leftFragment(const Buffer &memory,
                                            Address address, int64_t first) {
  SmallVector<Expr> upper = rightFragment(memory, address, first),
                    lower = rightFragment(memory, address, first + 8);
  // Two registers of each vector are one step of 16 products.
  SmallVector<Expr> registers;
  for (size_t r = 0; r < upper.size(); r += 2)
    registers.append({upper[r], lower[r], upper[r + 1], lower[r + 1]});
  return registers;
}

SmallVector<Expr> WarpProduct::mma(ArrayRef<Expr> left, ArrayRef<Expr> right) {
  SmallVector<Value> a(left.begin(), left.end()), b(right.begin(), right.end());
  Type f32 = k.b.getF32Type();
  Value zero = k.f32(0);
  auto op =
      simt::MmaOp::create(k.b, SmallVector<Type>(4, f32), a, b, zero, zero,
                          zero, zero, k.shape.elementType(k.b.getContext()));
  SmallVector<Expr> products;
  for (Value product : op.getResults())
    products.push_back(k.expr(product));
  return products;
}

// Of the 16 x 8 products of an instruction a lane has two side by side, and
// those eight rows below.

void WarpProduct::multiplyLeftColumns(const Buffer &memory, Address address,
                                      Visit visit) {
  Expr low = k.lane() / 4, side = k.lane() % 4 * 2;
  for (int64_t part = 0; part < 2; ++part) {
    SmallVector<Expr> row = rightFragment(memory, address, part * 8);
    for (int64_t block = 0; block < columnBlocks(); ++block) {
      if (streams)
        k.syncWarp(); // or all loads would be moved to the front
      SmallVector<Expr> products =
          mma(streams ? columnFragment(block) : fragments[block], row);
      for (int64_t r = 0; r < 4; ++r)
        visit({products[r], side + (part * 8 + r % 2),
               low + (r / 2 * 8 + block * 16), int(block * 2 + r / 2),
               int(part * 2 + r % 2)});
    }
  }
}

void WarpProduct::multiplyFragments(const Buffer &memory, Address address,
                                    Visit visit) {
  if (streams)
    k.syncWarp(); // or rows would be loaded before the last ones are used
  if (columnsLeft)
    return multiplyLeftColumns(memory, address, visit);
  SmallVector<Expr> row = leftFragment(memory, address, 0);
  Expr low = k.lane() / 4, side = k.lane() % 4 * 2;
  for (int64_t block = 0; block < columnBlocks(); ++block) {
    if (streams)
      k.syncWarp(); // or all loads would be moved to the front
    SmallVector<Expr> products =
        mma(row, streams ? columnFragment(block) : fragments[block]);
    for (int64_t r = 0; r < 4; ++r)
      visit({products[r], low + r / 2 * 8, side + (block * 8 + r % 2),
             int(block * 2 + r % 2), int(r / 2)});
  }
}

void WarpProduct::multiply(const Buffer &memory, Address address, Visit visit) {
  if (k.shape.usesTensorCores())
    return multiplyFragments(memory, address, visit);
  SmallVector<Expr> dots =
      k.eitherForm([&] { return dotsOnHost(memory, address); },
                   [&] { return dotsOnGPU(memory, address); });
  for (int64_t row = 0; row < rows; ++row)
    visit({dots[row], k.index(row), k.lane(), 0, int(row)});
}

Expr WarpProduct::columnOf(int slot) {
  if (!k.shape.usesTensorCores())
    return k.lane();
  if (columnsLeft)
    return k.lane() / 4 + slot * apart;
  return k.lane() % 4 * 2 + (slot / 2 * 8 + slot % 2);
}

SmallVector<Expr> WarpProduct::acrossLanes(
    SmallVector<Expr> values,
    llvm::function_ref<SmallVector<Expr>(ArrayRef<Expr>, ArrayRef<Expr>)>
        combine) {
  if (!k.shape.usesTensorCores())
    return values;
  // The four lanes of a quad, or the eight with the same place in theirs.
  int64_t first = columnsLeft ? 1 : 4, end = columnsLeft ? 4 : warpSize;
  for (int64_t mask = first; mask < end; mask *= 2) {
    SmallVector<Expr> others;
    for (Expr value : values)
      others.push_back(k.shuffleXor(value, mask));
    values = combine(values, others);
  }
  return values;
}

Expr WarpProduct::ownsColumns() {
  if (!k.shape.usesTensorCores())
    return k.boolean(true);
  return columnsLeft ? k.lane() % 4 == 0 : k.lane() < 4;
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
