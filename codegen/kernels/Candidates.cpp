//===- Candidates.cpp - selection over blocks: the threshold --------------===//

#include "codegen/kernels/Candidates.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

Candidates::Candidates(KernelBuilder &k, const KernelSite &site, Expr sequence,
                       Value score, ValueRange made)
    : k(k), sequence(sequence), score(score), isListed(hasLists(k, site)) {
  auto buffer = [&](Value value) {
    auto arg = cast<BlockArgument>(value);
    return scratchBuffer(k, site.inputs[arg.getArgNumber()], value.getType());
  };
  found = buffer(made[0]);
  second = buffer(made[1]);
  above = buffer(made[2]);
  place = buffer(made[3]);
  tokens = buffer(made[4]);
  keys = buffer(made[5]);
  digits = buffer(made[6]);
  if (made.size() > 7)
    prefixes = buffer(made[7]);
}

RadixSelect::Place Candidates::firstPlace(const RadixSelect &radix,
                                          Expr head) const {
  return radix.behind(k.load(place, {sequence, head, k.index(0)}),
                      k.load(place, {sequence, head, k.index(1)}));
}

Expr Candidates::countAbove(Expr head, Expr split) const {
  Expr most = splitCount(k);
  Expr count = k.load(above, {sequence, head, split.min(most - 1)});
  return (split < most).select(count, k.i32(0));
}

Candidates::Found Candidates::select(RowBlock &row, RadixSelect &radix,
                                     Expr wanted, bool countsInFront) const {
  Expr past = row.s.past;
  auto values = [&](const Selection &s, llvm::function_ref<Expr()> inFront) {
    Values all{s.threshold, s.lastTie};
    if (countsInFront)
      all.push_back(inFront());
    return all;
  };
  auto none = [&] {
    return values({k.i32(-1), k.i32(-1)}, [&] { return k.i32(0); });
  };
  auto all = [&] {
    return values({k.i32(0), past.toI32()}, [&] { return row.begin.toI32(); });
  };
  auto some = [&] {
    Selection s = search(row, radix, wanted, countsInFront);
    return values(s, [&] { return countInFront(row, radix); });
  };
  Values result = k.choose(wanted < 1, none,
                           [&] { return k.choose(wanted >= past, all, some); });
  return {{result[0], result[1]}, countsInFront ? result[2] : Expr()};
}

Expr Candidates::countInFront(RowBlock &row, RadixSelect &radix) const {
  Expr front = RowSplits(k, row.s).count(row.begin), count = k.i32(0);
  for (int64_t first = 0; first < RowSplits::most; first += RowBlock::threads) {
    Expr split = k.thread() + first;
    Expr own = k.load(radix.tallied(), {split});
    count = count + (split < front).select(own, k.i32(0));
  }
  return row.block.sum(count);
}

Selection Candidates::search(RowBlock &row, RadixSelect &radix, Expr wanted,
                             bool counts) const {
  auto values = [](const Places &of) {
    return Values{of.noted.prefix, of.noted.rest,     of.next.prefix,
                  of.next.rest,    of.next.remaining, of.next.sharing,
                  of.areNoted};
  };
  Values known = k.choose(
      isListed, [&] { return values(noteLists(row, radix, counts)); },
      [&] { return values(notePrefixes(row, radix, wanted, counts)); });
  RadixSelect::Place noted{known[0], known[1], {}, {}, {}},
      next{known[2], known[3], known[4], known[5], {}};
  Expr areNoted = known[6];
  auto itemAt = [&](Expr i) {
    auto values = [](const RadixSelect::Seen &one) {
      return Values{one.key, one.item};
    };
    return k.choose(
        areNoted, [&] { return values(radix.notedAt(i)); },
        [&] {
          return k.choose(
              isListed, [&] { return values(listedAt(row.head, i, {})); },
              [&] { return Values{keyAt(row, i), i}; });
        });
  };
  auto again = [&](RadixSelect::Visit visit) {
    Expr elsewhere = isListed.select(countOf(row.head), row.s.past);
    Expr all = areNoted.select(radix.countNoted(), elsewhere);
    k.loop(k.thread(), all, RowBlock::threads, [&](Expr i) {
      Values item = itemAt(i);
      visit(RadixSelect::Seen{item[0], item[1], noted.has(item[0])});
    });
  };
  if (!counts)
    return radix.finish(next, row.s.past, areNoted, again);
  RowSplits splits(k, row.s);
  return radix.finish(next, row.s.past, areNoted, again,
                      [&](Expr token) { radix.tally(splits.of(token)); });
}

Candidates::Places Candidates::noteLists(RowBlock &row, RadixSelect &radix,
                                         bool counts) const {
  // All that is read of the head is on its way before the first barrier.
  Expr count = countOf(row.head);
  SmallVector<Expr> digits = radix.read(second, sequence, row.head);
  RadixSelect::Place place = firstPlace(radix, row.head);
  Values begin = read(row.head, count, k.thread());
  radix.begin([&](Expr split) { return countAbove(row.head, split); });
  place = radix.descend(place, digits);
  RowSplits splits(k, row.s);
  auto note = [&](ArrayRef<RadixSelect::Seen> seen) {
    SmallVector<Expr> has;
    for (const RadixSelect::Seen &one : seen) {
      has.push_back(one.among(place.has(one.key)));
      if (counts)
        k.when(one.among(place.isBelow(one.key)),
               [&] { radix.tally(splits.of(one.item)); });
    }
    radix.note(has, seen);
  };
  auto oneByOne = [&] {
    k.loop(k.thread(), count, RowBlock::threads,
           [&](Expr i) { note(listedAt(row.head, i, {})); });
    return Values();
  };
  auto writtenOut = [&] {
    int64_t step = RowBlock::threads;
    k.loop(k.thread(), count, step * together, begin,
           [&](Expr first, ArrayRef<Expr> own) {
             SmallVector<RadixSelect::Seen> seen;
             for (int64_t i = 0; i < together; ++i)
               seen.push_back({own[i], own[together + i].toIndex(),
                               first + step * i < count});
             note(seen);
             Expr next = first + step * together;
             return k.choose(
                 next < count, [&] { return read(row.head, count, next); },
                 [&] { return Values(own.begin(), own.end()); });
           });
    return Values();
  };
  k.eitherForm(oneByOne, writtenOut);
  k.barrier(); // all are noted
  return {place, place, place.sharing <= k.i32(radix.room)};
}

RadixSelect::Seen Candidates::listedAt(Expr head, Expr number,
                                       Expr there) const {
  return {k.load(keys, {sequence, head, number}), tokenOf(head, number), there};
}

Values Candidates::read(Expr head, Expr count, Expr first) const {
  Values values;
  for (const Buffer *from : {&keys, &tokens})
    for (int64_t i = 0; i < together; ++i) {
      Expr item = (first + i * RowBlock::threads).min(count - 1);
      values.push_back(k.load(*from, {sequence, head, item}));
    }
  return values;
}

void Candidates::countChosen(RadixSelect &radix, ThreadBlock &block,
                             const SequenceScalars &s, Expr positions,
                             const Buffer &chosen) const {
  // More than of one head, as there is one block for all; positions of rows are read, too.
  const int64_t together = k.shape.hasRows() ? 8 : 16;
  Expr heads = k.arg("kv_heads");
  int64_t warps = block.threads / warpSize;
  radix.begin();
  SmallVector<Expr> counts = radix.read(second, sequence, k.index(0));
  RadixSelect::Place place = firstPlace(radix, k.index(0));
  place = radix.descend(place, counts);
  // Each warp has a head.
  Expr splits = splitCount(k).min(k.index(RowSplits::most));
  k.loop(k.warp(), heads, warps, [&](Expr head) {
    Expr count = k.streamOver(
        k.lane(), splits, warpSize, {k.i32(0)},
        [&](Expr split) { return Values{countAbove(head, split)}; },
        [&](Expr, ArrayRef<Expr> count, ArrayRef<Expr> sum) {
          return Values{sum[0] + count[0]};
        },
        /*together=*/8)[0];
    count = k.sumOfLanes(count);
    k.when((k.lane() == 0) & (count > 0),
           [&] { k.atomicAdd(count, chosen, {head}); });
  });
  // Items are numbered across heads, whose candidates are dealt out to warps, so that
  // heads with few do not wait for each other.
  Expr walked; // the head
  auto seenAt = [&](Expr item, Expr there) {
    Expr token = tokenOf(walked, item);
    return RadixSelect::Seen{k.load(keys, {sequence, walked, item}),
                             positionOf(k, s, walked, token) * heads + walked,
                             there};
  };
  auto walk = [&](RadixSelect::Visit visit) {
    auto oneByOne = [&] {
      k.loop(0, heads, 1, [&](Expr head) {
        walked = head;
        k.loop(k.thread(), countOf(head), block.threads,
               [&](Expr item) { visit(seenAt(item, {})); });
      });
      return Values();
    };
    auto walkHead = [&](Expr count) {
      Expr turn = (k.warp() + walked * 2) % warps;
      int64_t step = block.threads * together;
      k.loop(turn * (warpSize * together), count, step, [&](Expr base) {
        SmallVector<RadixSelect::Seen> seen;
        for (int64_t i = 0; i < together; ++i) {
          Expr item = base + k.lane() + warpSize * i;
          seen.push_back(seenAt(item.min(count - 1), item < count));
        }
        visit(seen);
      });
    };
    // Lanes have the counts of 32 heads: read one by one, each would be waited for.
    auto writtenOut = [&] {
      k.loop(0, heads, warpSize, [&](Expr first) {
        Expr own = countOf((first + k.lane()).min(heads - 1)).toI32();
        Expr end = (first + warpSize).min(heads);
        k.loop(first, end, 1, [&](Expr head) {
          walked = head;
          Expr mine = k.lane() == head - first;
          walkHead(k.sumOfLanes(mine.select(own, k.i32(0))).toIndex());
        });
      });
      return Values();
    };
    k.eitherForm(oneByOne, writtenOut);
  };
  // Those above the threshold's digits are counted, those that have them noted.
  walk([&](ArrayRef<RadixSelect::Seen> seen) {
    Expr count = k.i32(0);
    SmallVector<Expr> has;
    for (const RadixSelect::Seen &one : seen) {
      has.push_back(one.among(place.has(one.key)));
      count = count + one.among(place.isBelow(one.key)).toI32();
    }
    k.when(count > 0, [&] { k.atomicAdd(count, chosen, {walked}); });
    radix.note(has, seen);
  });
  k.barrier(); // all are noted
  Expr areNoted = place.sharing <= k.i32(radix.room);
  auto again = [&](RadixSelect::Visit visit) {
    auto those = [&](ArrayRef<RadixSelect::Seen> seen) {
      SmallVector<RadixSelect::Seen> left;
      for (const RadixSelect::Seen &one : seen)
        left.push_back({one.key, one.item, one.among(place.has(one.key))});
      visit(left);
    };
    k.choose(
        areNoted,
        [&] {
          radix.walkNoted(visit);
          return Values();
        },
        [&] {
          walk(those);
          return Values();
        });
  };
  radix.finish(place, positions * heads, areNoted, again, [&](Expr item) {
    k.atomicAdd(k.i32(1), chosen, {item % heads});
  });
}
