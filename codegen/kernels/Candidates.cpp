//===- Candidates.cpp - selection over blocks -----------------------------===//

#include "codegen/kernels/Candidates.h"

#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

//===----------------------------------------------------------------------===//
// A span's part
//===----------------------------------------------------------------------===//

void kvc::countDigits(RowBlock &row, RadixSelect &radix, CountDigitsOp op,
                      const std::optional<Buffer> &stored) {
  KernelBuilder &k = row.k;
  Expr sequence = row.s.sequence;
  Buffer digits = row.outputOf(op.getDigits());
  auto keys = [&](RadixSelect::Count count) {
    row.forTokens(
        [&](Expr token) { return Values{row.at(token)(op.getScore())}; },
        [&](Expr token, ArrayRef<Expr> made) {
          Expr score = made[0];
          if (stored)
            k.store(score, *stored, {sequence, row.head, token});
          k.when(score.isNaN(), [&] { k.setStatus(KVC_DATA_NAN); });
          count(orderedKey(k, score));
        });
  };
  radix.count(radix.start(k.i32(0)), keys, digits, {sequence, row.head});
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
    // So many tokens a thread at a time, the first ones read before the digit is known.
    constexpr int64_t each = RowBlock::spanTokens / RowBlock::threads;
    auto tokenOf = [&](Expr first, int64_t i) {
      return first + k.thread() + i * RowBlock::threads;
    };
    auto read = [&](Expr first) {
      Values own;
      for (int64_t i = 0; i < each; ++i) {
        Expr token = tokenOf(first, i).min((row.end - 1).max(k.index(0)));
        own.push_back(orderedKey(k, row.at(token)(op.getScore())));
      }
      return own;
    };
    Values begin = read(row.begin);
    RadixSelect::Place place =
        radix.descend(radix.start(wanted.toI32()), digits, s.sequence,
                      all ? k.index(0) : row.head, all ? heads : Expr(),
                      shares ? takesPart : llvm::function_ref<Expr(Expr)>());
    Buffer tokens = row.outputOf(op.getTokens()),
           keys = row.outputOf(op.getKeys());
    k.loop(row.begin, row.end, RowBlock::spanTokens, begin,
           [&](Expr first, ArrayRef<Expr> own) {
             SmallVector<Expr> candidates;
             Expr mine = k.i32(0);
             for (auto [i, key] : llvm::enumerate(own)) {
               Expr there = tokenOf(first, int64_t(i)) < row.end;
               candidates.push_back(there & place.has(key));
               mine = mine + candidates.back().toI32();
             }
             // Every thread's candidates lie beside each other.
             Expr before = row.block.exclusiveSum(mine);
             Expr number = before + row.block.fromLastThread([&] {
               return k.atomicAdd(before + mine, row.outputOf(op.getFound()),
                                  {s.sequence, row.head});
             });
             auto list = [&](RadixSelect::Count count) {
               for (auto [i, key] : llvm::enumerate(own)) {
                 Expr is = candidates[i];
                 k.when(is, [&, i = i, key = key] {
                   Expr token = tokenOf(first, int64_t(i));
                   SmallVector<Expr> to{s.sequence, row.head, number.toIndex()};
                   k.store(token.toI32(), tokens, to);
                   k.store(key, keys, to);
                   count(key);
                 });
                 number = number + is.toI32();
               }
             };
             radix.count(place, list, row.outputOf(op.getSecond()),
                         {s.sequence, row.head});
             Expr next = first + RowBlock::spanTokens;
             return k.choose(
                 next < row.end, [&] { return read(next); },
                 [&] { return Values(own.begin(), own.end()); });
           });
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
  digits = buffer(made[0]);
  found = buffer(made[1]);
  second = buffer(made[2]);
  tokens = buffer(made[3]);
  keys = buffer(made[4]);
}

void Candidates::walk(ThreadBlock &block, Expr head, Expr count, Expr turn,
                      RadixSelect::Visit visit) const {
  auto keyOf = [&](Expr item) {
    return k.load(keys, {sequence, head, item.toIndex()});
  };
  auto oneByOne = [&] {
    k.loop(k.thread(), count, block.threads,
           [&](Expr i) { visit(RadixSelect::Seen{keyOf(i.toI32()), i, {}}); });
    return Values();
  };
  auto writtenOut = [&] {
    // So many keys of each thread in flight, and none at the end alone: there may
    // be tens of thousands. Those of several heads are dealt out to warps, so that
    // heads with few do not wait for each other.
    constexpr int64_t together = 8;
    int64_t lanes = turn.valid() ? warpSize : block.threads;
    Expr all = count.toI32(), own = turn.valid() ? k.lane() : k.thread();
    Expr from = turn.valid() ? turn * (lanes * together) : k.index(0);
    k.loop(from, count, block.threads * together, [&](Expr base) {
      Expr first = (base + own).toI32();
      SmallVector<RadixSelect::Seen> seen;
      for (int64_t i = 0; i < together; ++i) {
        Expr item = first + lanes * i;
        seen.push_back({keyOf(item.min(all - 1)), item.toIndex(), item < all});
      }
      visit(seen);
    });
    return Values();
  };
  k.eitherForm(oneByOne, writtenOut);
}

Selection Candidates::select(RadixSelect &radix, ThreadBlock &block, Expr head,
                             Expr count, Expr wanted) const {
  auto constants = [&](int64_t threshold, Expr lastTie) {
    return Values{k.i32(threshold), lastTie};
  };
  auto search = [&] {
    // All that is read of the head is on its way before the first barrier.
    Expr candidates = countOf(head);
    SmallVector<Expr> counts[] = {radix.read(digits, sequence, head),
                                  radix.read(second, sequence, head)};
    RadixSelect::Place place = radix.start(wanted.toI32());
    for (ArrayRef<Expr> digit : counts)
      place = radix.descend(place, digit);
    Selection s = radix.finish(
        place, count,
        [&](RadixSelect::Visit visit) {
          walk(block, head, candidates, {}, visit);
        },
        [&](Expr at) { return tokenOf(head, at); });
    return Values{s.threshold, s.lastTie};
  };
  Values result = k.choose(
      wanted < 1, [&] { return constants(-1, k.i32(-1)); },
      [&] {
        return k.choose(
            wanted >= count, [&] { return constants(0, count.toI32()); },
            search);
      });
  return {result[0], result[1]};
}

/// What lies above a bin is in the histogram: two warps for each head, whose loads of
/// four bins are in flight together.
void Candidates::countAbove(ThreadBlock &block, const Buffer &histogram,
                            Expr bin, const Buffer &chosen,
                            llvm::function_ref<Expr(Expr)> takesPart) const {
  constexpr int64_t halves = 2, width = 4, together = 4;
  constexpr int64_t step = halves * warpSize, groups = digitBins / width;
  Expr zero = k.i32(0), own = bin.toIndex() / width * width;
  k.loop(k.warp(), k.arg("kv_heads") * halves, block.threads / warpSize,
         [&](Expr item) {
           Expr head = item / halves, half = item % halves;
           // Of the bin's own four those above it.
           Expr beside = own + k.lane() % width;
           Expr count = k.load(histogram, {sequence, head, beside});
           Expr once = (half == 0) & (k.lane() < width);
           count = (once & (beside > bin.toIndex())).select(count, zero);
           count = k.fold(
               own / width + 1 + half * warpSize + k.lane(), groups,
               step * together, count, [&](Expr group, Expr sum) {
                 for (int64_t i = 0; i < together; ++i) {
                   Expr at = group + step * i;
                   Expr four = k.loadVector(
                       histogram,
                       {sequence, head, at.min(k.index(groups - 1)) * width},
                       width);
                   Expr all = (k.element(four, 0) + k.element(four, 1)) +
                              (k.element(four, 2) + k.element(four, 3));
                   sum = sum + (at < groups).select(all, zero);
                 }
                 return sum;
               });
           for (int64_t mask = warpSize / 2; mask; mask /= 2)
             count = count + k.shuffleXor(count, mask);
           Expr counts = (k.lane() == 0) & (count > 0);
           if (takesPart)
             counts = counts & takesPart(head);
           k.when(counts, [&] { k.atomicAdd(count, chosen, {head}); });
         });
}

void Candidates::countChosen(RadixSelect &radix, ThreadBlock &block,
                             const SequenceScalars &s, Expr positions,
                             Expr wanted, const Buffer &chosen,
                             const HeadShares *shares) const {
  Expr heads = k.arg("kv_heads");
  auto takesPart = [&](Expr head) { return shares->takesPart(head); };
  RadixSelect::Place place = radix.start(wanted.toI32());
  for (const Buffer &histogram : {digits, second}) {
    place =
        radix.descend(place, histogram, sequence, k.index(0), heads,
                      shares ? takesPart : llvm::function_ref<Expr(Expr)>());
    countAbove(block, histogram, place.prefix & (digitBins - 1), chosen,
               shares ? takesPart : llvm::function_ref<Expr(Expr)>());
  }
  // Behind the two digits some items are left, numbered across heads; so are candidates.
  Expr most = k.arg("max_tokens");
  radix.finish(
      place, positions * heads,
      [&](RadixSelect::Visit visit) {
        int64_t warps = block.threads / warpSize;
        k.loop(0, heads, 1, [&](Expr head) {
          Expr turn = (k.warp() + head * 2) % warps;
          walk(block, head, countOf(head), turn,
               [&](ArrayRef<RadixSelect::Seen> seen) {
                 SmallVector<RadixSelect::Seen> all(seen);
                 for (RadixSelect::Seen &one : all)
                   one.at = head * most + one.at;
                 visit(all);
               });
        });
      },
      [&](Expr at) {
        Expr head = at / most, token = tokenOf(head, at - head * most);
        return positionOf(k, s, head, token) * heads + head;
      },
      [&](Expr item) { k.atomicAdd(k.i32(1), chosen, {item % heads}); });
}
