//===- ShortPasts.cpp - selection over blocks without lists ---------------===//
//
// Of a short past a block that asks which of its head's tokens are selected walks all of
// its scores: those that have the threshold's first digit it notes in shared memory, counts
// their second digits there, and of each split how many are above them. That is what
// kvc.list_candidates does for all blocks together where the past is long: each of them
// reads 4 bytes a token here, of the L2 cache, and a launch is saved.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Candidates.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// Splits that a warp has at a time.
static constexpr int64_t splits = 2, ofSplit = splitTokens / warpSize,
                         ofWarp = splits * splitTokens;

Candidates::Places Candidates::noteScores(RowBlock &row, RadixSelect &radix,
                                          Expr wanted, bool counts) const {
  SmallVector<Expr> first = radix.read(digits, sequence, row.head);
  radix.begin();
  RadixSelect::Place place = radix.descend(radix.start(wanted.toI32()), first);
  auto fits = [&](const RadixSelect::Place &at) {
    return (at.sharing <= k.i32(radix.room)) &
           (at.scores(k).hasNaN() == k.boolean(false));
  };
  // Where too many share the first digit, those that have the second as well are noted.
  Expr walks = fits(place).select(k.index(1), k.index(2));
  auto valuesOf = [](const RadixSelect::Place &at) {
    return Values{at.prefix, at.rest, at.remaining, at.sharing};
  };
  auto placeOf = [](ArrayRef<Expr> of) {
    return RadixSelect::Place{of[0], of[1], of[2], of[3], {}};
  };
  Values start = valuesOf(place);
  start.append(valuesOf(place));
  Values known = k.loop(0, walks, 1, start, [&](Expr walk, ArrayRef<Expr> of) {
    RadixSelect::Place at = placeOf(of.take_back(4));
    k.when(walk > 0, [&] {
      radix.begin();
      k.barrier(); // nothing is noted
    });
    Expr areNoted = fits(at);
    walkScores(row, radix, at, areNoted, counts);
    k.barrier(); // all are noted
    Values next = valuesOf(at);
    next.append(valuesOf(radix.descend(at, radix.readShared())));
    return next;
  });
  place = placeOf(known);
  return {place, placeOf(ArrayRef<Expr>(known).take_back(4)), fits(place)};
}

void Candidates::walkScores(RowBlock &row, RadixSelect &radix,
                            const RadixSelect::Place &place, Expr areNoted,
                            bool counts) const {
  static_assert(longestWithoutLists == RowSplits::most * splitTokens,
                "no split is longer");
  Expr past = row.s.past;
  ScoreRange range = place.scores(k);
  auto scoreOf = [&](Expr token) { return row.at(token)(score); };
  // A thread's tokens, beside those of others, that have the digits of `place`.
  auto note = [&](Expr first, ArrayRef<Expr> scores) {
    auto seenAt = [&](size_t i) {
      return RadixSelect::Seen{
          orderedKey(k, scores[i]), first + int64_t(i) * warpSize, {}};
    };
    k.choose(
        areNoted,
        [&] {
          SmallVector<Expr> has;
          for (Expr own : scores)
            has.push_back(range.has(own));
          radix.note(has, seenAt, &place);
          return Values();
        },
        [&] {
          for (size_t i = 0; i < scores.size(); ++i) {
            Expr key = seenAt(i).key;
            k.when(place.has(key), [&] { radix.add(place, key); });
          }
          return Values();
        });
  };
  auto oneByOne = [&](Expr from) {
    k.loop(from + k.thread(), past, RowBlock::threads, [&](Expr token) {
      Expr own = scoreOf(token);
      if (counts)
        k.when(range.isBelow(own), [&] { radix.tally(token / splitTokens); });
      note(token, own);
    });
    return Values();
  };
  auto writtenOut = [&] {
    Expr whole = past / ofWarp * ofWarp;
    int64_t step = RowBlock::threads / warpSize * ofWarp;
    k.loop(k.warp() * ofWarp, whole, step, [&](Expr first) {
      SmallVector<Expr> scores;
      for (int64_t i = 0; i < splits * ofSplit; ++i)
        scores.push_back(scoreOf(first + k.lane() + i * warpSize));
      for (int64_t i = 0; counts && i < splits; ++i) {
        Expr above = k.i32(0);
        for (Expr own : ArrayRef<Expr>(scores).slice(i * ofSplit, ofSplit))
          above = above + range.isBelow(own).toI32();
        above = k.sumOfLanes(above);
        k.when((k.lane() == 0) & (above > 0),
               [&] { radix.setTally(first / splitTokens + i, above); });
      }
      note(first + k.lane(), scores);
    });
    return oneByOne(whole);
  };
  k.eitherForm([&] { return oneByOne(k.index(0)); }, writtenOut);
}
