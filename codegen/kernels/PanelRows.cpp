//===- PanelRows.cpp - rows in shared memory that warpgroups multiply -----===//

#include "codegen/kernels/PanelRows.h"

using namespace mlir;
using namespace kvc;

PanelRows::PanelRows(KernelBuilder &k) : k(k) {
  // Descriptors count the pieces of eight rows from a multiple of 1024 bytes on.
  memory = k.shared(k.shape.elementType(k.b.getContext()),
                    2 * rows * k.shape.headDim, {}, /*alignment=*/1024);
  numbers = k.shared(k.b.getF32Type(), 2 * rows);
}

void PanelRows::copy(const RowSource &source, Expr first, bool whole) {
  constexpr int64_t width = 8; // 16 bytes
  int64_t perRow = k.shape.headDim / width, together = groupThreads / perRow;
  Expr row = k.thread() / perRow, part = k.thread() % perRow;
  Expr stage = stageOf(first);
  // A thread's rows are alike modulo 8, and with them where its piece is.
  Expr piece = part % 8 ^ row % 8;
  Expr to = stage * (rows * k.shape.headDim) + part / 8 * (rows * panel) +
            row * panel + piece * width;
  // And with whole periods of rows, they are apart by constants in all rounds.
  bool regular = whole && source.period && together % source.period == 0 &&
                 rows % source.period == 0;
  for (int64_t done = 0; done < rows; done += together) {
    Expr from = row, offset;
    if (regular)
      offset = (first / source.period + done / source.period) * source.distance;
    else
      from = whole ? first + row + done
                   : (first + row + done).min(source.count - 1);
    SmallVector<Expr> at = source.address(from);
    at.push_back(part * width);
    k.copyAsync(source.memory, at, memory, {to}, width, offset,
                k.index(done * panel));
  }
  if (!source.number)
    return;
  k.when(k.thread() < rows, [&] {
    Expr from = first + k.thread();
    k.copyAsync(source.numbers,
                source.number(whole ? from : from.min(source.count - 1)),
                numbers, {stage * rows + k.thread()}, 1);
  });
}

void PanelRows::begin(const RowSource &source, Expr first) {
  k.when(first + rows <= source.count, [&] { copy(source, first, true); });
  k.when((first < source.count) & (first + rows > source.count),
         [&] { copy(source, first, false); });
  k.commitCopies();
}

void PanelRows::finish() {
  k.waitForCopies(0);
  k.publishCopies();
}

PanelRows::Values PanelRows::multiply(ArrayRef<Expr> left, Expr first) {
  SmallVector<Value> a(left.begin(), left.end());
  Expr at = stageOf(first) * (rows * k.shape.headDim);
  SmallVector<Type> types(rows / 2, k.b.getF32Type());
  auto op = simt::GroupMultiplyOp::create(k.b, types, a, memory.memref, at);
  Values products;
  for (Value product : op.getProducts())
    products.push_back(k.expr(product));
  return products;
}

PanelRows::Values PanelRows::waitFor(ArrayRef<Expr> products) {
  SmallVector<Value> begun(products.begin(), products.end());
  auto op = simt::GroupWaitOp::create(k.b, ValueRange(begun).getTypes(), begun);
  Values there;
  for (Value product : op.getThere())
    there.push_back(k.expr(product));
  return there;
}

void PanelRows::visit(KernelBuilder &k, ArrayRef<Expr> products, int slot,
                      WarpProduct::Visit visit) {
  Expr low = k.lane() / 4, side = k.lane() % 4 * 2;
  for (auto [i, product] : llvm::enumerate(products)) {
    int64_t part = int64_t(i) / 4, r = int64_t(i) % 4;
    visit({product, side + (part * 8 + r % 2), low + r / 2 * 8,
           int(slot + r / 2), int(part * 2 + r % 2)});
  }
}

PanelRows::Values PanelRows::numbersOf(Expr first) {
  Expr at = stageOf(first) * rows + k.lane() % 4 * 2;
  Values result;
  for (int64_t part = 0; part < rows / 8; ++part)
    for (int64_t i = 0; i < 2; ++i)
      result.push_back(k.load(numbers, {at + (part * 8 + i)}));
  return result;
}
