//===- PanelRows.cpp - rows in shared memory that warpgroups multiply -----===//

#include "codegen/kernels/PanelRows.h"

using namespace mlir;
using namespace kvc;

PanelRows::PanelRows(KernelBuilder &k, int64_t rounds, int64_t numbered)
    : k(k), rounds(rounds), numbered(numbered) {
  // Descriptors count the pieces of eight rows from a multiple of 1024 bytes on.
  memory = k.shared(k.shape.elementType(k.b.getContext()),
                    rounds * rows * k.shape.headDim, {}, /*alignment=*/1024);
  numbers = k.shared(k.b.getF32Type(), numbered * rows);
}

/// 16 bytes, of which a row of a panel has so many, and a warpgroup those of so many rows.
static constexpr int64_t width = 8, ofPanel = 8,
                         mixedRows = PanelRows::groupThreads / ofPanel;

Expr PanelRows::placeOf(Expr first, Expr row, Expr part) {
  return stageOf(first) * (rows * k.shape.headDim) + part / 8 * (rows * panel) +
         row * panel + (part % 8 ^ row % 8) * width;
}

void PanelRows::copyWhole(const RowSource &source, Expr first) {
  int64_t perRow = k.shape.headDim / width, together = groupThreads / perRow;
  Expr row = thread() / perRow, part = thread() % perRow;
  // A thread's rows are alike modulo 8, and with them where its piece is.
  Expr to = placeOf(first, row, part);
  // With whole periods of rows, they are apart by constants in all rounds.
  bool regular = source.period && together % source.period == 0;
  Expr offset;
  if (regular)
    offset = first / source.period * source.distance;
  for (int64_t done = 0; done < rows; done += together) {
    SmallVector<Expr> at = source.address(regular ? row : first + row + done);
    at.push_back(part * width);
    k.copyAsync(source.memory, at, memory, {to}, width, offset,
                k.index(done * panel));
    if (regular)
      offset = offset + source.distance * (together / source.period);
  }
}

/// Once a walk, and not worth a register for the place of each row.
void PanelRows::copySome(const RowSource &source, Expr first, Behind behind) {
  int64_t perRow = k.shape.headDim / width, together = groupThreads / perRow;
  Expr part = thread() % perRow;
  k.loop(thread() / perRow, rows, together, [&](Expr row) {
    Expr from = first + row, to = placeOf(first, row, part);
    SmallVector<Expr> at = source.address(from.min(source.count - 1));
    at.push_back(part * width);
    auto copy = [&] { k.copyAsync(source.memory, at, memory, {to}, width); };
    if (behind == Behind::Last)
      return copy();
    k.when(from < source.count, copy);
    k.when(from >= source.count, [&] {
      auto zeros =
          VectorType::get({width}, k.shape.elementType(k.b.getContext()));
      k.storeVector(k.zero(zeros), memory, {to});
    });
  });
}

void PanelRows::copyNumbers(const RowSource &source, Expr first) {
  k.when(thread() < rows, [&] {
    Expr row = (first + thread()).min(source.count - 1);
    k.copyAsync(source.numbers, source.number(row), numbers,
                {placeOfNumbers(first) + thread()}, 1);
  });
}

void PanelRows::begin(const RowSource &source, Expr first, Behind behind) {
  k.when(first + rows <= source.count, [&] { copyWhole(source, first); });
  k.when((first < source.count) & (first + rows > source.count),
         [&] { copySome(source, first, behind); });
  if (source.number)
    k.when(first < source.count, [&] { copyNumbers(source, first); });
  k.commitCopies();
}

/// Lane q of a quad has elements 8 q to 8 q + 7 of 32: two of them go to each of four pieces,
/// where a product of 16 asks the lane for two. A warp has four rows of one panel at a time,
/// whose pieces are in all banks.
PanelRows::Values PanelRows::loadMixed(const RowSource &source, Expr first) {
  Values loaded;
  for (int64_t done = 0; done < rows; done += mixedRows) {
    SmallVector<Expr> at = source.address(first + thread() / ofPanel + done);
    for (int64_t from = 0; from < k.shape.headDim; from += panel) {
      at.push_back(thread() % ofPanel * width + from);
      loaded.push_back(k.loadVector(source.memory, at, width));
      at.pop_back();
    }
  }
  return loaded;
}

void PanelRows::storeMixed(ArrayRef<Expr> loaded, const RowSource &source,
                           Expr first) {
  storeRows(loaded, first);
  if (source.number)
    copyNumbers(source, first);
  k.commitCopies();
}

void PanelRows::beginMixed(const RowSource &source, ArrayRef<Expr> rounds) {
  if (source.number)
    for (Expr first : rounds)
      copyNumbers(source, first);
  k.commitCopies();
  SmallVector<Values> loaded;
  for (Expr first : rounds)
    loaded.push_back(loadMixed(source, first));
  for (auto [first, round] : llvm::zip(rounds, loaded))
    storeRows(round, first);
}

void PanelRows::storeRows(ArrayRef<Expr> loaded, Expr first) {
  constexpr int64_t pair = 2, quad = 4;
  Expr row = thread() / ofPanel, own = thread() % ofPanel;
  size_t next = 0;
  for (int64_t done = 0; done < rows; done += mixedRows)
    for (int64_t from = 0; from < k.shape.headDim; from += panel) {
      int64_t offset = done * panel + from * rows;
      Values registers = k.registers(loaded[next++]);
      for (auto [piece, two] : llvm::enumerate(registers)) {
        Expr part = own / quad * quad + int64_t(piece);
        Expr to = placeOf(first, row, part) + own % quad * pair;
        k.storeRegister(two, memory, {to + offset});
      }
    }
}

void PanelRows::finish() {
  k.waitForCopies(0);
  k.publishCopies();
}

SmallVector<Expr> PanelRows::fragment(KernelBuilder &k, const Buffer &memory,
                                      WarpProduct::Address address) {
  Expr row = k.lane() / 4, pair = k.lane() % 4 * 2;
  SmallVector<SmallVector<Expr>> vectors = {address(row), address(row + 8)};
  SmallVector<Expr> registers;
  for (int64_t dim = 0; dim < k.shape.headDim; dim += 8)
    for (SmallVector<Expr> at : vectors) {
      at.push_back(pair + dim);
      registers.append(k.registers(k.loadVector(memory, at, 2)));
    }
  return registers;
}

SmallVector<Expr> PanelRows::wideFragment(KernelBuilder &k,
                                          const Buffer &memory,
                                          WarpProduct::Address address) {
  Expr row = k.lane() / 4, own = k.lane() % 4 * width;
  SmallVector<SmallVector<Expr>> vectors = {address(row), address(row + 8)};
  SmallVector<Expr> registers;
  for (int64_t dim = 0; dim < k.shape.headDim; dim += 4 * width) {
    SmallVector<SmallVector<Expr>> loaded;
    for (SmallVector<Expr> at : vectors) {
      at.push_back(own + dim);
      loaded.push_back(k.registers(k.loadVector(memory, at, width)));
    }
    for (int64_t two = 0; two < width / 2; ++two)
      for (const SmallVector<Expr> &of : loaded)
        registers.push_back(of[two]);
  }
  return registers;
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
  Expr low = k.lane() / 4;
  for (auto [i, product] : llvm::enumerate(products)) {
    int row = int(i) / 4 * 2 + int(i) % 2, below = int(i) % 4 / 2;
    visit({product, rowOf(k, row), low + below * 8, slot + below, row});
  }
}

void PanelRows::scaleNumbers(int64_t threads, Expr by) {
  k.loop(k.thread(), k.index(numbered * rows), threads,
         [&](Expr i) { k.store(k.load(numbers, {i}) * by, numbers, {i}); });
}

PanelRows::Values PanelRows::numbersOf(Expr first) {
  Values result;
  for (int slot = 0; slot < rows / 4; ++slot)
    result.push_back(k.load(numbers, {placeOfNumbers(first) + rowOf(k, slot)}));
  return result;
}
