//===- SelectedRows.cpp - which tokens some rows of a selection are -------===//

#include "codegen/kernels/SelectedRows.h"

using namespace mlir;
using namespace kvc;

SelectedRows::SelectedRows(KernelBuilder &k, ThreadBlock &block)
    : k(k), block(block), radix(k, block, RowSplits::most),
      listed(k.shared(k.b.getI32Type(), together + RowBlock::threads)),
      ends(k.shared(k.b.getI32Type(), 2)) {}

KernelBuilder::Values
SelectedRows::search(RowBlock &row, const Candidates &candidates, Expr wanted) {
  Selection selection = candidates.search(row, radix, wanted, /*counts=*/true);
  Values all{selection.threshold, selection.lastTie};
  all.append(countInFront());
  return all;
}

KernelBuilder::Values SelectedRows::none() {
  return Values(2 + bounds, k.i32(0));
}

void SelectedRows::know(ArrayRef<Expr> found) {
  selected.emplace(k, Selection{found[0], found[1]});
  front.assign(found.take_back(bounds));
}

/// `front`, which takes the place of the tallies as well.
KernelBuilder::Values SelectedRows::countInFront() {
  Values counts, sums;
  Expr all = k.i32(0);
  for (int64_t i = 0; i < splitsOfThread; ++i) {
    counts.push_back(k.load(radix.tallied(), {splitOfThread(i)}));
    all = all + counts[i];
  }
  Expr sum = block.exclusiveSum(all);
  for (int64_t i = 0; i < splitsOfThread; ++i) {
    sums.push_back(sum);
    k.store(sum, radix.tallied(), {splitOfThread(i)});
    sum = sum + counts[i];
  }
  sums.push_back(sum);
  return sums;
}

/// The thread that has the split of an end says so.
void SelectedRows::findEnds(Expr first, Expr end) {
  Expr rows[] = {first.toI32(), (end - 1).toI32()};
  for (int64_t i = 0; i < splitsOfThread; ++i)
    for (int64_t side : {0, 1})
      k.when((front[i] <= rows[side]) & (rows[side] < front[i + 1]),
             [&] { k.store(splitOfThread(i).toI32(), ends, {k.index(side)}); });
}

void SelectedRows::list(RowBlock &row, Value score, Expr first, Expr end) {
  constexpr int64_t each = splitTokens / warpSize;
  findEnds(first, end);
  k.barrier(); // the ends are known, and so is what is in front of each split
  Expr last = k.load(ends, {k.index(1)}).toIndex();
  // Tokens are i32 here: products of counts are not narrowed by the compiler.
  Expr length = RowSplits(k, row.s).length().toI32(), past = row.s.past.toI32();
  Expr count = (end - first).toI32(), lane = k.lane().toI32();
  Expr elsewhere = k.thread().toI32() + together;
  auto firstOf = [&](Expr split) { return split.toI32() * length; };
  // Behind the last split there is nothing.
  auto endOf = [&](Expr split) {
    Expr begin = firstOf(split);
    return (split <= last).select((begin + length).min(past), begin);
  };
  // Where in the list those of 128 tokens are that are selected and belong there, the
  // first one of them at `number`; and where the next one is.
  auto placesOf = [&](Expr begin, Expr behind, Expr number) {
    SmallVector<Expr> tokens, scores;
    for (int64_t i = 0; i < each; ++i) {
      tokens.push_back(begin + lane + i * warpSize);
      scores.push_back(row.at(tokens[i].min(past - 1).toIndex())(score));
    }
    Values places;
    for (auto [token, own] : llvm::zip(tokens, scores)) {
      Expr is = (token < behind) & selected->contains(own, token.toIndex());
      Expr bits = k.ballot(is);
      Expr place = number + bitsBelow(k, bits);
      is = is & count.above(place); // not of rows in front, either
      places.push_back(is.select(place, elsewhere));
      number = number + k.popcount(bits);
    }
    places.push_back(number);
    return places;
  };
  auto write = [&](Expr begin, ArrayRef<Expr> places) {
    for (int64_t i = 0; i < each; ++i)
      k.store(begin + lane + i * warpSize, listed, {places[i].toIndex()});
  };
  k.streamOver(
      k.load(ends, {k.index(0)}).toIndex() + k.warp(), last + 1,
      RowBlock::threads / warpSize, {},
      [&](Expr split) {
        Expr number = k.load(radix.tallied(), {split.min(last)});
        return placesOf(firstOf(split), endOf(split), number - first.toI32());
      },
      [&](Expr split, ArrayRef<Expr> places, ArrayRef<Expr>) {
        Expr begin = firstOf(split), behind = endOf(split);
        write(begin, places);
        k.fold((begin + splitTokens).toIndex(), behind.toIndex(), splitTokens,
               places.back(), [&](Expr next, Expr number) {
                 Values more = placesOf(next.toI32(), behind, number);
                 write(next.toI32(), more);
                 return more.back();
               });
        return Values();
      },
      /*together=*/2);
}
