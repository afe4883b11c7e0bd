//===- StagedRows.cpp - rows that a block streams through shared memory ---===//

#include "codegen/kernels/StagedRows.h"

#include "codegen/kernels/WarpProduct.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

int64_t StagedRows::pitch(const Shape &shape) {
  int64_t bytes = shape.headDim * shape.bytesPerElement();
  if (bytes > 32)
    bytes = llvm::alignTo(bytes - 64, 128) + 64;
  return bytes / shape.bytesPerElement();
}

int64_t StagedRows::rowsThatFit(const Shape &shape, int64_t bytes) {
  int64_t rows = mostRows;
  while (rows >= 16 && bytesFor(shape, rows) > bytes)
    rows /= 2;
  return rows >= 16 ? rows : 0;
}

StagedRows::StagedRows(KernelBuilder &k, int64_t threads, int64_t rows)
    : rows(rows), k(k), allThreads(threads), allRows(rows), threads(threads) {
  int64_t pitch = StagedRows::pitch(k.shape);
  memory = k.shared(k.shape.elementType(k.b.getContext()), 2 * rows * pitch,
                    {k.index(pitch)});
  numbers = k.shared(k.b.getF32Type(), 2 * rows);
}

void StagedRows::shareOut(int64_t teams, Expr team) {
  this->teams = teams;
  this->team = team;
  threads = allThreads / teams;
  rows = allRows / teams;
}

/// Row `first` + `row` of the source.
static Expr rowOf(const RowSource &source, Expr first, Expr row, bool whole) {
  return whole ? first + row : (first + row).min(source.count - 1);
}

void StagedRows::copyRows(const RowSource &source, Expr first, bool whole,
                          int64_t count) {
  constexpr int64_t width = 8; // 16 bytes
  int64_t perRow = k.shape.headDim / width, pieces = count * perRow;
  Expr place = placeOf(first);
  // Where the threads take whole periods at a time, each has one part of rows
  // that are apart by a constant.
  int64_t together = threads / perRow;
  if (whole && source.period && threads % perRow == 0 &&
      together % source.period == 0) {
    Expr row = thread() / perRow, part = thread() % perRow * width;
    SmallVector<Expr> from = source.address(first + row);
    Expr step = source.distance * (together / source.period);
    from.push_back(part);
    for (int64_t done = 0; done < count; done += together) {
      auto one = [&] {
        k.copyAsync(source.memory, from, memory, {place + row, part}, width,
                    step * (done / together), k.index(done * pitch(k.shape)));
      };
      if (done + together <= count)
        one();
      else
        k.when(row + done < count, one);
    }
    return;
  }
  auto copyPiece = [&](Expr piece) {
    Expr row = piece / perRow, part = piece % perRow * width;
    SmallVector<Expr> from = source.address(rowOf(source, first, row, whole));
    from.push_back(part);
    k.copyAsync(source.memory, from, memory, {place + row, part}, width);
  };
  // Once a walk, and not worth a register for the place of each piece.
  if (!whole)
    return k.loop(thread(), pieces, threads, copyPiece);
  for (int64_t done = 0; done < pieces; done += threads) {
    Expr piece = thread() + done;
    if (done + threads <= pieces)
      copyPiece(piece);
    else
      k.when(piece < pieces, [&] { copyPiece(piece); });
  }
}

void StagedRows::copy(const RowSource &source, Expr first, bool whole,
                      int64_t count) {
  copyRows(source, first, whole, count);
  if (!source.number)
    return;
  for (int64_t done = 0; done < count; done += threads) {
    Expr row = thread() + done;
    k.when(row < count, [&] {
      k.copyAsync(source.numbers,
                  source.number(rowOf(source, first, row, whole)), numbers,
                  {placeOf(first) + row}, 1);
    });
  }
}

void StagedRows::begin(const RowSource &source, Expr first) {
  // Whole rounds need no care at the end, and their addresses are apart by
  // constants.
  Expr whole = first + rows <= source.count;
  k.when(whole, [&] { copy(source, first, true, rows); });
  k.when((first < source.count) & (first + rows > source.count),
         [&] { copy(source, first, false, rows); });
  k.commitCopies();
}

StagedRows::Values StagedRows::walkRounds(
    const RowSource &source, Expr from, ArrayRef<Expr> carried,
    llvm::function_ref<Values(Expr, Expr, ArrayRef<Expr>)> body) {
  barrier(); // an earlier walk has read its rounds
  begin(source, from);
  return k.loop(from, source.count, rows, carried,
                [&](Expr first, ArrayRef<Expr> values) {
                  k.waitForCopies(0);
                  // The round is there for all, and the last one is read.
                  barrier();
                  return body(first, placeOf(first), values);
                });
}

Expr StagedRows::rowsOf(const RowSource &source, Expr first) {
  Expr count = (source.count - first).min(k.index(rows));
  if (!own.valid())
    return count;
  // With 64 bits a register more would be held through the walk.
  auto step = [](Expr row) { return (row / WarpProduct::rows).toI32(); };
  return (step(first) < step(own)).select(k.index(0), count);
}

StagedRows::Values
StagedRows::stepsOf(Expr count, int64_t steps, ArrayRef<Expr> carried,
                    llvm::function_ref<Values(Expr, ArrayRef<Expr>)> body) {
  int64_t step = steps * WarpProduct::rows;
  return k.loop(turns > 1 ? Bound(turn * step) : Bound(0), count, turns * step,
                carried, body);
}

StagedRows::Values
StagedRows::walk(const RowSource &source, Expr from, ArrayRef<Expr> carried,
                 llvm::function_ref<Values(Expr, Expr, ArrayRef<Expr>)> body,
                 int64_t steps) {
  return walkRounds(source, from, carried,
                    [&](Expr first, Expr place, ArrayRef<Expr> values) {
                      begin(source, first + rows);
                      return stepsOf(rowsOf(source, first), steps, values,
                                     [&](Expr done, ArrayRef<Expr> running) {
                                       return body(first + done, place + done,
                                                   running);
                                     });
                    });
}

StagedRows::Values StagedRows::walkEither(const RowSource &source, Expr from,
                                          ArrayRef<Expr> carried,
                                          IsWhole isWhole, Either body) {
  return walkRounds(
      source, from, carried,
      [&](Expr first, Expr place, ArrayRef<Expr> values) {
        begin(source, first + rows);
        auto steps = [&](Expr count, bool whole) {
          return stepsOf(
              count, 1, values, [&](Expr done, ArrayRef<Expr> running) {
                return body(first + done, place + done, running, whole);
              });
        };
        Expr end = first + rows;
        return k.choose((end <= source.count) & isWhole(first, end),
                        [&] { return steps(k.index(rows), true); },
                        [&] { return steps(rowsOf(source, first), false); });
      });
}

void StagedRows::beginAll(const RowSource &source, int64_t count) {
  copy(source, k.index(0), true, count);
  k.commitCopies();
}

StagedRows::Values StagedRows::walkAll(int64_t count, ArrayRef<Expr> carried,
                                       IsWhole isWhole, Either body) {
  k.waitForCopies(0);
  barrier(); // the rows are there for all
  auto steps = [&](bool whole) {
    return k.loop(0, count, WarpProduct::rows, carried,
                  [&](Expr first, ArrayRef<Expr> running) {
                    return body(first, first, running, whole);
                  });
  };
  return k.choose(
      isWhole(k.index(0), k.index(count)), [&] { return steps(true); },
      [&] { return steps(false); });
}

StagedRows::Values StagedRows::walkTogether(const RowSource &source, Expr from,
                                            int64_t most,
                                            ArrayRef<Expr> carried,
                                            Either body) {
  constexpr int64_t step = WarpProduct::rows;
  auto steps = [&](Expr first, Expr place, Expr count, int64_t together,
                   ArrayRef<Expr> values, bool whole) {
    return k.loop(0, count, step * together, values,
                  [&](Expr done, ArrayRef<Expr> running) {
                    Values next(running.begin(), running.end());
                    for (int64_t i = 0; i < step * together; i += step)
                      next =
                          body(first + done + i, place + done + i, next, whole);
                    return next;
                  });
  };
  return walkRounds(
      source, from, carried,
      [&](Expr first, Expr place, ArrayRef<Expr> values) {
        Expr next = first + rows;
        return k.choose(
            next + rows <= source.count,
            [&] { // straight code, but for a loop if the round is no multiple
              copy(source, next, true, rows);
              k.commitCopies();
              return steps(first, place, k.index(rows),
                           rows % (most * step) ? 1 : most, values, true);
            },
            [&] {
              begin(source, next);
              Expr count = (source.count - first).min(k.index(rows));
              return steps(first, place, count, 1, values, false);
            });
      });
}

StagedRows::Values StagedRows::walkKnown(
    const RowSource &source, int64_t count, ArrayRef<Expr> carried,
    llvm::function_ref<Values(int64_t, Expr, ArrayRef<Expr>)> body) {
  return walkKnownRounds(
      source, count, carried,
      [&](int64_t first, Expr place, ArrayRef<Expr> values) {
        Values running(values);
        for (int64_t done = 0; done < std::min(rows, count - first);
             done += WarpProduct::rows)
          running = body(first + done, place + done, running);
        return running;
      });
}

StagedRows::Values StagedRows::walkKnownRounds(
    const RowSource &source, int64_t count, ArrayRef<Expr> carried,
    llvm::function_ref<Values(int64_t, Expr, ArrayRef<Expr>)> body,
    llvm::function_ref<void()> next) {
  assert((!next || endsInSecond(count)) && "the first place is free then");
  if (!next) {
    barrier(); // an earlier walk has read its rounds
    beginKnown(source, count);
  }
  Values running(carried);
  for (int64_t first = 0; first < count; first += rows) {
    k.waitForCopies(0);
    // The round is there for all, and the last one is read.
    barrier();
    if (next && first + rows == count)
      next();
    else
      beginKnown(source, count, first + rows);
    running = body(first, placeOf(k.index(first)), running);
  }
  return running;
}

void StagedRows::beginKnown(const RowSource &source, int64_t count,
                            int64_t first) {
  if (first < count)
    copy(source, k.index(first), first + rows <= count, rows);
  k.commitCopies();
}
