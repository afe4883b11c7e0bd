//===- ShortPasts.cpp - selection over blocks without lists ---------------===//
//
// Of a short past a block that asks which of its head's tokens are selected walks all of
// its scores: those that have the threshold's first digit it notes in shared memory, counts
// their second digits there, and of each split how many are above them. That is what
// kvc.list_candidates does for all blocks together where the past is long: each of them
// reads 4 bytes a token here, of the L2 cache, and a launch is saved. All blocks look at all
// tokens, so that is little; keys and second digits are made for the few that are noted.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Candidates.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

static_assert(longestWithoutLists == RowSplits::most * splitTokens,
              "no split is longer");

namespace {
/// One walk of a block over all scores of its head. Those with the digits of `place` are
/// noted, or where they are not, counted by their next one; if `counts`, those with larger
/// digits are tallied by split.
class ScoreWalk {
public:
  ScoreWalk(KernelBuilder &k, RowBlock &row, RadixSelect &radix,
            const RadixSelect::Place &place, Value score, Expr areNoted,
            bool counts)
      : k(k), row(row), radix(radix), place(place), range(place.scores(k)),
        score(score), areNoted(areNoted), past(row.s.past), counts(counts) {}

  void run() {
    auto walked = [&](Expr whole) {
      oneByOne(whole);
      return Values();
    };
    k.eitherForm([&] { return walked(k.index(0)); },
                 [&] {
                   Expr whole = past / ofWarp * ofWarp;
                   writtenOut(whole);
                   return walked(whole);
                 });
  }

private:
  /// Splits that a warp looks at together, their tokens, those that a lane has of one and of
  /// all, and how many times a word has bits for these.
  static constexpr int64_t splits = 2, ofWarp = splits * splitTokens,
                           ofSplit = splitTokens / warpSize,
                           ofLane = splits * ofSplit, ofWord = 32 / ofLane,
                           step = RowBlock::threads / warpSize * ofWarp;

  Expr scoreOf(Expr token) { return row.at(token)(score); }
  void add(Expr own) {
    Expr key = orderedKey(k, own);
    k.when(place.has(key), [&] { radix.add(place, key); });
  }
  void oneByOne(Expr from);
  void writtenOut(Expr whole);
  Values scoresOfLane(Expr first);
  void tally(Expr first, Expr above);
  void noteBits(Expr first, Expr bits);

  KernelBuilder &k;
  RowBlock &row;
  RadixSelect &radix;
  const RadixSelect::Place &place;
  const ScoreRange range;
  const Value score;
  const Expr areNoted, past;
  const bool counts;
};
} // namespace

void ScoreWalk::oneByOne(Expr from) {
  k.loop(from + k.thread(), past, RowBlock::threads, [&](Expr token) {
    Expr own = scoreOf(token);
    if (counts)
      k.when(range.isBelow(own), [&] { radix.tally(token / splitTokens); });
    auto note = [&] {
      k.when(range.has(own),
             [&] { radix.noteAt(radix.takeSlots(k.i32(1)), token); });
      return Values();
    };
    k.choose(areNoted, note, [&] {
      add(own);
      return Values();
    });
  });
}

Values ScoreWalk::scoresOfLane(Expr first) {
  Values scores;
  for (int64_t i = 0; i < ofLane; ++i)
    scores.push_back(scoreOf(first + k.lane() + i * warpSize));
  return scores;
}

/// A warp has whole splits at a time, and a lane a bit for each of its tokens that is to be
/// noted: few are, so it walks them once a word of bits is full.
void ScoreWalk::writtenOut(Expr whole) {
  Expr own = k.warp() * ofWarp;
  auto look = [&](Expr first, ArrayRef<Expr> carried) {
    // The next scores are on their way while these are looked at.
    Expr next = first + step;
    Values ahead = scoresOfLane((next < whole).select(next, first));
    // One token behind the other: their conditions are not kept beside each other.
    Expr above = k.i32(0), bits = carried.back() << ofLane;
    for (auto [i, score] : llvm::enumerate(carried.drop_back())) {
      Expr one = k.i32(1 << (int64_t(i) / ofSplit * 16));
      above = above + range.isBelow(score).select(one, k.i32(0));
      bits = bits | range.has(score).select(k.i32(1 << i), k.i32(0));
    }
    if (counts)
      tally(first, above);
    bits = k.choose(
        areNoted, [&] { return Values{bits}; },
        [&] {
          for (Expr score : carried.drop_back())
            add(score);
          return Values{k.i32(0)};
        })[0];
    Expr isFull = (first / step) % ofWord == ofWord - 1;
    ahead.push_back(k.choose(
        isFull | (next >= whole),
        [&] {
          noteBits(first, bits);
          return Values{k.i32(0)};
        },
        [&] { return Values{bits}; })[0]);
    return ahead;
  };
  k.when(own < whole, [&] {
    Values start = scoresOfLane(own);
    start.push_back(k.i32(0));
    k.loop(own, whole, step, start, look);
  });
}

/// `above`: how many of a lane's tokens have larger digits, of each split in 16 bits.
void ScoreWalk::tally(Expr first, Expr above) {
  static_assert(splits * 16 <= 32 && splitTokens < 1 << 16);
  Expr sums = k.sumOfLanes(above);
  k.when(k.lane() < splits, [&] {
    Expr own = (sums >> (k.lane() * 16).toI32()) & 0xffff;
    radix.setTally(first / splitTokens + k.lane(), own);
  });
}

/// `first`: of the tokens that the lowest bits stand for.
void ScoreWalk::noteBits(Expr first, Expr bits) {
  Expr count = k.popcount(bits);
  k.when(count > 0, [&] {
    Expr slot = radix.takeSlots(count);
    k.loop(k.index(0), count.toIndex(), 1, {bits},
           [&](Expr i, ArrayRef<Expr> left) {
             Expr others = left[0] & (left[0] - 1);
             Expr bit = k.popcount((left[0] ^ others) - 1);
             Expr token = first + k.lane() +
                          (bit % ofLane * warpSize).toIndex() -
                          (bit / ofLane).toIndex() * step;
             radix.noteAt(slot + i.toI32(), token);
             return Values{others};
           });
  });
}

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
    ScoreWalk(k, row, radix, at, score, areNoted, counts).run();
    k.barrier(); // all are noted
    k.when(areNoted, [&] {
      radix.makeKeys(at, [&](Expr token) { return keyAt(row, token); });
    });
    k.barrier(); // all are counted
    Values next = valuesOf(at);
    next.append(valuesOf(radix.descend(at, radix.readShared())));
    return next;
  });
  place = placeOf(known);
  return {place, placeOf(ArrayRef<Expr>(known).take_back(4)), fits(place)};
}
