//===- Candidates.cpp - selection over blocks: the threshold --------------===//

#include "codegen/kernels/Candidates.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

Candidates::Candidates(KernelBuilder &k, const KernelSite &site, Expr sequence,
                       ValueRange made)
    : k(k), sequence(sequence) {
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

Values Candidates::read(Expr head, Expr count, Expr first, int64_t step) const {
  Values values;
  for (const Buffer *from : {&keys, &tokens})
    for (int64_t i = 0; i < together; ++i) {
      Expr item = (first + step * i).min(count - 1);
      values.push_back(k.load(*from, {sequence, head, item}));
    }
  return values;
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
    Selection s = search(row, radix, countsInFront);
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
    Expr own = countAbove(row.head, split) + k.load(radix.tallied(), {split});
    count = count + (split < front).select(own, k.i32(0));
  }
  return row.block.sum(count);
}

Selection Candidates::search(RowBlock &row, RadixSelect &radix,
                             bool counts) const {
  Expr head = row.head;
  int64_t step = RowBlock::threads;
  // All that is read of the head is on its way before the first barrier.
  Expr count = countOf(head);
  SmallVector<Expr> digits = radix.read(second, sequence, head);
  RadixSelect::Place place = firstPlace(radix, head);
  Values begin = read(head, count, k.thread(), step);
  place = radix.descend(place, digits);
  auto oneByOne = [&](RadixSelect::Visit visit) {
    k.loop(k.thread(), count, step, [&](Expr i) {
      visit(RadixSelect::Seen{
          k.load(keys, {sequence, head, i}), tokenOf(head, i), {}});
    });
  };
  auto writtenOut = [&](RadixSelect::Visit visit) {
    k.loop(0, count, step * together, begin,
           [&](Expr base, ArrayRef<Expr> own) {
             SmallVector<RadixSelect::Seen> seen;
             for (int64_t i = 0; i < together; ++i)
               seen.push_back({own[i], own[together + i].toIndex(),
                               base + k.thread() + step * i < count});
             visit(seen);
             Expr next = base + step * together;
             return k.choose(
                 next < count,
                 [&] { return read(head, count, next + k.thread(), step); },
                 [&] { return Values(own.begin(), own.end()); });
           });
  };
  auto walk = [&](RadixSelect::Visit visit) {
    k.eitherForm(
        [&] {
          oneByOne(visit);
          return Values();
        },
        [&] {
          writtenOut(visit);
          return Values();
        });
  };
  if (!counts)
    return radix.finish(place, row.s.past, walk);
  RowSplits splits(k, row.s);
  auto chosen = [&](Expr token) { radix.tally(splits.of(token)); };
  auto visited = [&](ArrayRef<RadixSelect::Seen> seen) {
    for (const RadixSelect::Seen &one : seen)
      k.when(one.among(place.isBelow(one.key)), [&] { chosen(one.item); });
  };
  return radix.finish(place, row.s.past, walk, visited, chosen);
}

void Candidates::countChosen(RadixSelect &radix, ThreadBlock &block,
                             const SequenceScalars &s, Expr positions,
                             const Buffer &chosen) const {
  // More than of one head, as there is one block for all; positions of rows are read, too.
  const int64_t together = k.shape.hasRows() ? 8 : 16;
  Expr heads = k.arg("kv_heads");
  int64_t warps = block.threads / warpSize;
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
    k.loop(0, heads, 1, [&](Expr head) {
      walked = head;
      Expr count = countOf(head);
      auto oneByOne = [&] {
        k.loop(k.thread(), count, block.threads,
               [&](Expr item) { visit(seenAt(item, {})); });
        return Values();
      };
      auto writtenOut = [&] {
        Expr turn = (k.warp() + head * 2) % warps;
        int64_t step = block.threads * together;
        k.loop(turn * (warpSize * together), count, step, [&](Expr base) {
          SmallVector<RadixSelect::Seen> seen;
          for (int64_t i = 0; i < together; ++i) {
            Expr item = base + k.lane() + warpSize * i;
            seen.push_back(seenAt(item.min(count - 1), item < count));
          }
          visit(seen);
        });
        return Values();
      };
      k.eitherForm(oneByOne, writtenOut);
    });
  };
  auto visited = [&](ArrayRef<RadixSelect::Seen> seen) {
    Expr count = k.i32(0);
    for (const RadixSelect::Seen &one : seen)
      count = count + one.among(place.isBelow(one.key)).toI32();
    k.when(count > 0, [&] { k.atomicAdd(count, chosen, {walked}); });
  };
  radix.finish(place, positions * heads, walk, visited, [&](Expr item) {
    k.atomicAdd(k.i32(1), chosen, {item % heads});
  });
}
