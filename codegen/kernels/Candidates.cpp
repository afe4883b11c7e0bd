//===- Candidates.cpp - selection over blocks -----------------------------===//

#include "codegen/kernels/Candidates.h"

#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

//===----------------------------------------------------------------------===//
// A span's part
//===----------------------------------------------------------------------===//

void kvc::countDigits(RowBlock &row, RadixSelect &radix, CountDigitsOp op) {
  KernelBuilder &k = row.k;
  Buffer digits = row.outputOf(op.getDigits());
  RadixSelect::Place none = radix.start(k.i32(0));
  radix.empty();
  k.barrier(); // the histogram is empty
  row.forTokens(
      [&](Expr token) { return Values{row.at(token)(op.getScore())}; },
      [&](Expr token, ArrayRef<Expr> made) {
        Expr score = made[0];
        k.when(score.isNaN(), [&] { k.setStatus(KVC_DATA_NAN); });
        radix.add(none, orderedKey(k, score));
      });
  k.barrier(); // the histogram is full
  radix.addTo(digits, {row.s.sequence, row.head});
}

void kvc::listCandidates(RowBlock &row, RadixSelect &radix, ListCandidatesOp op,
                         const Buffer &digits, HeadShares *shares) {
  KernelBuilder &k = row.k;
  const SequenceScalars &s = row.s;
  bool all = op.getAllHeads();
  auto countOf = [&](const SequenceScalars &s, Expr head) {
    PointEval eval(k, s, row.leaf, Point{head, -1, {}, k.index(0)});
    return atLeastNone(k, eval(op.getCount()).toIndex(), op.getCount());
  };
  Expr heads = k.arg("kv_heads");
  Expr wanted, items, isRanked = k.boolean(true);
  if (shares) {
    shares->open(s, cast<YieldOp>(op->getBlock()->getTerminator()), countOf);
    wanted = shares->total();
    items = shares->items();
    isRanked = shares->takesPart(row.head);
  } else if (all) {
    wanted = k.fold(0, heads, 1, k.index(0), [&](Expr head, Expr sum) {
      return sum + countOf(s, head);
    });
    items = s.past * heads;
  } else {
    wanted = countOf(s, row.head);
    items = s.past;
  }
  auto takesPart = [&](Expr head) { return shares->takesPart(head); };
  k.when((wanted > 0) & (wanted < items) & isRanked, [&] {
    // So many tokens a thread at a time, a warp's in one split, the first ones read before
    // the digit is known.
    constexpr int64_t each = RowBlock::spanTokens / RowBlock::threads;
    static_assert(each * warpSize == splitTokens);
    auto tokenOf = [&](Expr first, int64_t i) {
      return first + k.warp() * splitTokens + k.lane() + i * warpSize;
    };
    RowSplits splits(k, s);
    Buffer above = row.outputOf(op.getAbove());
    auto read = [&](Expr first) {
      Values own;
      for (int64_t i = 0; i < each; ++i) {
        Expr token = tokenOf(first, i).min((row.end - 1).max(k.index(0)));
        own.push_back(orderedKey(k, row.at(token)(op.getScore())));
      }
      return own;
    };
    radix.empty(); // there are barriers until it is used
    Values begin = read(row.begin);
    RadixSelect::Place place = radix.descend(
        radix.start(wanted.toI32()),
        radix.read(digits, s.sequence, all ? k.index(0) : row.head,
                   all ? heads : Expr(),
                   shares ? takesPart : llvm::function_ref<Expr(Expr)>()));
    Expr threshold = all ? k.index(0) : row.head;
    k.when((row.span == 0) & (k.thread() == 0), [&] {
      Buffer to = row.outputOf(op.getPlace());
      k.store(place.first, to, {s.sequence, threshold, k.index(0)});
      k.store(place.remaining, to, {s.sequence, threshold, k.index(1)});
    });
    Buffer tokens = row.outputOf(op.getTokens()),
           keys = row.outputOf(op.getKeys());
    k.loop(
        row.begin, row.end, RowBlock::spanTokens, begin,
        [&](Expr first, ArrayRef<Expr> own) {
          SmallVector<Expr> candidates, numbers;
          Expr ofWarp = k.i32(0), count = k.i32(0);
          for (auto [i, key] : llvm::enumerate(own)) {
            Expr there = tokenOf(first, int64_t(i)) < row.end;
            Expr is = there & place.has(key);
            Expr bits = k.ballot(is);
            numbers.push_back(ofWarp + bitsBelow(k, bits));
            ofWarp = ofWarp + k.popcount(bits);
            candidates.push_back(is);
            count = count + (there & place.isBelow(key)).toI32();
            k.when(is, [&, key = key] { radix.add(place, key); });
          }
          count = k.sumOfLanes(count);
          k.when((k.lane() == 0) & (count > 0), [&] {
            k.atomicAdd(count, above,
                        {s.sequence, row.head, splits.of(tokenOf(first, 0))});
          });
          auto [before, ofBlock] = row.block.warpSums(ofWarp);
          Expr base = before + row.block.fromLastThread([&, ofBlock = ofBlock] {
            return k.atomicAdd(ofBlock, row.outputOf(op.getFound()),
                               {s.sequence, row.head});
          });
          for (auto [i, key] : llvm::enumerate(own))
            k.when(candidates[i], [&, i = i, key = key] {
              Expr token = tokenOf(first, int64_t(i));
              SmallVector<Expr> to{s.sequence, row.head,
                                   (base + numbers[i]).toIndex()};
              k.store(token.toI32(), tokens, to);
              k.store(key, keys, to);
            });
          Expr next = first + RowBlock::spanTokens;
          return k.choose(
              next < row.end, [&] { return read(next); },
              [&] { return Values(own.begin(), own.end()); });
        });
    // Behind the loop's barriers.
    radix.addTo(row.outputOf(op.getSecond()), {s.sequence, threshold});
  });
}

//===----------------------------------------------------------------------===//
// The threshold
//===----------------------------------------------------------------------===//

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
