//===- ListedRows.cpp - rows that a list names, through shared memory -----===//

#include "codegen/kernels/ListedRows.h"

#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/StagedRows.h"
#include "codegen/kernels/WarpProduct.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

int64_t ListedRows::rowsFor(const Shape &shape, int64_t sides,
                            int64_t numbers) {
  if (!StagedRows::suits(shape))
    return 0;
  int64_t ofRow = sides * StagedRows::pitch(shape) * shape.bytesPerElement() +
                  4 * numbers + 4;
  for (int64_t rows : {2 * WarpProduct::rows, WarpProduct::rows})
    if (2 * rows * ofRow <= maxSharedBytes)
      return rows;
  return 0;
}

ListedRows::ListedRows(KernelBuilder &k, int64_t threads, int64_t rows,
                       int64_t sides, int64_t numbers)
    : k(k), threads(threads), rows(rows) {
  int64_t pitch = StagedRows::pitch(k.shape);
  for (int64_t side = 0; side < sides; ++side)
    memory.push_back(k.shared(k.shape.elementType(k.b.getContext()),
                              2 * rows * pitch, {k.index(pitch)}));
  made = k.shared(k.b.getF32Type(), 2 * rows * numbers, {k.index(numbers)});
  tokens = k.shared(k.b.getI32Type(), 2 * rows);
}

Values ListedRows::numbers(Expr place, int64_t first, int64_t count) {
  Expr all = k.loadVector(made, {place, k.index(first)}, count);
  Values values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(k.element(all, i));
  return values;
}

Expr ListedRows::ownToken(const Source &source, Expr first) {
  return source.token((first + ownRow()).min(source.count - 1));
}

void ListedRows::storeToken(Expr first, Expr token) {
  k.when(k.thread() < rows,
         [&] { k.store(token, tokens, {placeOf(first) + ownRow()}); });
}

void ListedRows::storeNumbers(const Source &source, Expr first,
                              ArrayRef<Expr> values) {
  k.when(k.thread() < rows, [&] {
    for (auto [i, number] : llvm::enumerate(source.make(values)))
      k.store(number, made, {placeOf(first) + ownRow(), k.index(i)});
  });
}

void ListedRows::copy(const Source &source, Expr first) {
  constexpr int64_t width = 8; // 16 bytes
  int64_t perRow = k.shape.headDim / width, pieces = rows * perRow;
  Expr place = placeOf(first);
  auto copyPiece = [&](Expr piece) {
    Expr to = place + piece / perRow, part = piece % perRow * width;
    SmallVector<Expr> from = source.address(k.load(tokens, {to}).toIndex());
    from.push_back(part);
    for (auto [side, rowsOfSide] : llvm::zip(source.sides, memory))
      k.copyAsync(side, from, rowsOfSide, {to, part}, width);
  };
  for (int64_t done = 0; done < pieces; done += threads) {
    Expr piece = k.thread() + done;
    if (done + threads <= pieces)
      copyPiece(piece);
    else
      k.when(piece < pieces, [&] { copyPiece(piece); });
  }
}

Values
ListedRows::walk(const Source &source, ArrayRef<Expr> carried,
                 llvm::function_ref<Values(Expr, Expr, ArrayRef<Expr>)> body) {
  Expr zero = k.index(0);
  k.barrier(); // an earlier walk has read its rounds
  Expr token = ownToken(source, zero);
  storeToken(zero, token);
  storeToken(k.index(rows), ownToken(source, k.index(rows)));
  storeNumbers(source, zero, source.read(token.toIndex()));
  k.barrier();
  copy(source, zero);
  k.commitCopies();
  return k.loop(zero, source.count, rows, carried,
                [&](Expr first, ArrayRef<Expr> values) {
                  k.waitForCopies(0);
                  // The round is there for all, and the last one is read.
                  k.barrier();
                  Expr next = first + rows, behind = next + rows;
                  k.when(next < source.count, [&] { copy(source, next); });
                  k.commitCopies();
                  Expr ofBehind = ownToken(source, behind);
                  Expr ofNext =
                      k.load(tokens, {placeOf(next) + ownRow()}).toIndex();
                  Values read = source.read(ofNext);
                  k.syncWarp(); // or these would be read where they are stored
                  Values result(values);
                  for (int64_t done = 0; done < rows; done += WarpProduct::rows)
                    result = body(first + done, placeOf(first) + done, result);
                  storeNumbers(source, next, read);
                  storeToken(behind, ofBehind);
                  return result;
                });
}
