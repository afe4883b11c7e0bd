//===- RadixSelect.cpp - the threshold of an exact top-k, digit by digit --===//

#include "codegen/kernels/RadixSelect.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

static constexpr int64_t keyBits = 32;
static constexpr int64_t digitBits = 11;
static constexpr int64_t bins = digitBins;
/// Bins of a histogram that a thread reads.
static constexpr int64_t width = 4;
static_assert(bins == 1 << digitBits);
/// Items that are ranked among each other, two threads each.
static constexpr int64_t few = 256;

Expr Selection::contains(Expr key, Expr item) const {
  return key.above(threshold) |
         ((key == threshold) & (item.toI32() <= lastTie));
}

/// Keys of the infinities: below and above these are those of NaN.
static constexpr int64_t leastKey = 0x007fffff, mostKey = 0xff800000;

SelectedScores::SelectedScores(KernelBuilder &k, const Selection &selection)
    : lastTie(selection.lastTie) {
  Expr key = selection.threshold;
  auto scoreOf = [&](Expr key) {
    Expr bits = (key < 0).select(key ^ k.i32(INT32_MIN), key ^ k.i32(-1));
    return k.expr(arith::BitcastOp::create(k.b, k.b.getF32Type(), bits));
  };
  Expr least = k.i32(leastKey), nan = k.f32(std::nan(""));
  // Behind that of an infinity there is no number.
  Expr none = key.above(k.i32(int32_t(mostKey - 1)));
  first = none.select(nan, scoreOf(least.above(key).select(least, key + 1)));
  ties = scoreOf(least.above(key).select(least, key));
  any = least.above(key);
}

Expr SelectedScores::contains(Expr score, Expr item) const {
  return (score >= first) |
         ((item.toI32() <= lastTie) & ((score >= ties) | any));
}

Expr kvc::orderedKey(KernelBuilder &k, Expr score) {
  // Adding +0 turns -0 into +0 and changes nothing else.
  Expr bits = (score + k.f32(0)).bits();
  Expr negative = bits < 0;
  Expr key = negative.select(bits ^ k.i32(-1), bits | k.i32(INT32_MIN));
  return score.isNaN().select(k.i32(0), key);
}

Expr RadixSelect::Place::has(Expr key) const {
  return (key >> (keyBits - known)) == prefix;
}

Expr RadixSelect::Place::isBelow(Expr key) const {
  return (key >> (keyBits - known)).above(prefix);
}

RadixSelect::RadixSelect(KernelBuilder &k, ThreadBlock &block)
    : k(k), block(block), most(k.shape.hasRows() ? 1024 : 3072) {
  Type i32 = k.b.getI32Type();
  histogram = k.shared(i32, bins);
  found = k.shared(i32, 4);
  leftKeys = k.shared(i32, most);
  leftItems = k.shared(i32, most);
}

RadixSelect::Place RadixSelect::start(Expr wanted) const {
  return {k.i32(0), wanted, {}, 0};
}

//===----------------------------------------------------------------------===//
// Histograms
//===----------------------------------------------------------------------===//

void RadixSelect::clear() {
  k.barrier(); // earlier readers are done
  k.loop(k.thread(), bins, block.threads,
         [&](Expr bin) { k.store(k.i32(0), histogram, {bin}); });
  k.barrier(); // the histogram is empty
}

/// The bin of a key that has a place's digits: its next one.
Expr RadixSelect::digitOf(const Place &place, Expr key) const {
  int64_t digit = std::min(digitBits, keyBits - place.known);
  Expr rest = key >> (keyBits - place.known - digit);
  return (rest & ((1 << digit) - 1)).toIndex();
}

void RadixSelect::count(const Place &place, Walk keys, const Buffer &to,
                        ArrayRef<Expr> row) {
  clear();
  keys([&](Expr key) {
    k.atomicAdd(k.i32(1), histogram, {digitOf(place, key)});
  });
  k.barrier(); // the histogram is full
  k.loop(k.thread(), bins, block.threads, [&](Expr bin) {
    Expr count = k.load(histogram, {bin});
    SmallVector<Expr> at(row);
    at.push_back(bin);
    k.when(count > 0, [&] { k.atomicAdd(count, to, at); });
  });
}

RadixSelect::Place
RadixSelect::descend(const Place &place, const Buffer &counted, Expr sequence,
                     Expr head, Expr heads,
                     llvm::function_ref<Expr(Expr)> takesPart) {
  return descend(place, read(counted, sequence, head, heads, takesPart));
}

RadixSelect::Place RadixSelect::descend(const Place &place,
                                        ArrayRef<Expr> counts) {
  k.barrier(); // earlier readers are done
  for (auto [i, count] : llvm::enumerate(counts))
    k.store(count, histogram, {k.thread() * width + int64_t(i)});
  k.barrier(); // the histogram is full
  return find(place);
}

SmallVector<Expr>
RadixSelect::read(const Buffer &counted, Expr sequence, Expr head, Expr heads,
                  llvm::function_ref<Expr(Expr)> takesPart) {
  assert(bins == width * block.threads && "each thread has a part");
  auto ofHead = [&](Expr head) {
    Values four;
    Expr vector =
        k.loadVector(counted, {sequence, head, k.thread() * width}, width);
    for (int64_t i = 0; i < width; ++i)
      four.push_back(k.element(vector, i));
    if (takesPart)
      for (Expr &number : four)
        number = takesPart(head).select(number, k.i32(0));
    return four;
  };
  if (!heads.valid())
    return ofHead(head);
  return k.stream(
      k.index(0), heads, 1, Values(width, k.i32(0)),
      [&](Expr other) { return ofHead(head + other); },
      [&](Expr, ArrayRef<Expr> made, ArrayRef<Expr> sums) {
        Values next;
        for (int64_t i = 0; i < width; ++i)
          next.push_back(sums[i] + made[i]);
        return next;
      });
}

/// From the largest digit down: which bin holds the item that we look for? Each
/// thread owns a run of bins.
RadixSelect::Place RadixSelect::find(const Place &place) {
  Expr thread = k.thread();
  int64_t run = bins / block.threads;
  Values own;
  Expr local = k.i32(0);
  for (int64_t r = 0; r < run; ++r) {
    Expr bin = k.index(bins - 1) - (thread * run + r);
    own.push_back(k.load(histogram, {bin}));
    local = local + own.back();
  }
  Expr before = block.exclusiveSum(local);
  k.when((before < place.remaining) & (place.remaining <= before + local), [&] {
    // Of the run the last bin that too few are in front of.
    Expr first = (k.index(bins - 1) - thread * run).toI32();
    Expr bin = first, count = own[0], front = before, after = before;
    for (int64_t r = 1; r < run; ++r) {
      after = after + own[r - 1];
      Expr holds = after < place.remaining;
      bin = holds.select(first - r, bin);
      front = holds.select(after, front);
      count = holds.select(own[r], count);
    }
    k.store(bin, found, {k.index(0)});
    k.store(place.remaining - front, found, {k.index(1)});
    k.store(count, found, {k.index(2)});
  });
  k.barrier(); // the bin is found
  int64_t digit = std::min(digitBits, keyBits - place.known);
  return {(place.prefix << digit) | k.load(found, {k.index(0)}),
          k.load(found, {k.index(1)}), k.load(found, {k.index(2)}),
          place.known + digit};
}

/// All digits behind those of a place.
RadixSelect::Place RadixSelect::refine(Place place, Walk walk) {
  while (place.known < keyBits) {
    clear();
    walk([&](Expr value) {
      k.when(place.has(value), [&] {
        k.atomicAdd(k.i32(1), histogram, {digitOf(place, value)});
      });
    });
    k.barrier(); // the histogram is full
    place = find(place);
  }
  return place;
}

//===----------------------------------------------------------------------===//
// The end of the search
//===----------------------------------------------------------------------===//

Selection RadixSelect::finish(const Place &place, Expr items, WalkItems walk,
                              ItemOf itemOf,
                              llvm::function_ref<void(Expr)> chosen) {
  auto values = [](const Selection &s) {
    return Values{s.threshold, s.lastTie};
  };
  Values result = k.choose(
      place.sharing <= k.i32(most),
      [&] {
        gather(place, walk, itemOf);
        return k.choose(
            place.sharing <= k.i32(few),
            [&] { return values(rank(place, chosen)); },
            [&] {
              auto left = [&](Visit visit) { walkLeft(place, visit); };
              auto known = [&](Expr i) {
                return k.load(leftItems, {i}).toIndex();
              };
              return values(finishMany(place, items, left, known, chosen));
            });
      },
      [&] { return values(finishMany(place, items, walk, itemOf, chosen)); });
  return {result[0], result[1]};
}

/// What is left, in any order, into shared memory: it is looked at several times, and
/// what comes of it does not depend on the order.
void RadixSelect::gather(const Place &place, WalkItems walk, ItemOf itemOf) {
  Expr last = k.index(3);
  k.barrier(); // what was found has been read
  k.when(k.thread() == 0, [&] { k.store(k.i32(0), found, {last}); });
  k.barrier(); // there are none yet
  walk([&](ArrayRef<Seen> seen) {
    // A thread has one wait for all that it found.
    SmallVector<Expr> has;
    Expr count = k.i32(0);
    for (const Seen &one : seen) {
      has.push_back(one.among(place.has(one.key)));
      count = count + has.back().toI32();
    }
    k.when(count > 0, [&] {
      Expr slot = k.atomicAdd(count, found, {last});
      for (auto [one, is] : llvm::zip(seen, has)) {
        k.when(is, [&, one = one] {
          k.store(one.key, leftKeys, {slot.toIndex()});
          k.store(one.at.toI32(), leftItems, {slot.toIndex()});
        });
        slot = slot + is.toI32();
      }
    });
  });
  k.barrier(); // all are there
  // Which they are is read of all together: who finds one does not wait for it.
  k.loop(k.thread(), place.sharing.toIndex(), block.threads, [&](Expr i) {
    Expr item = itemOf(k.load(leftItems, {i}).toIndex());
    k.store(item.toI32(), leftItems, {i});
  });
  k.barrier(); // all are known
}

void RadixSelect::walkLeft(const Place &place, Visit visit) {
  k.loop(k.thread(), place.sharing.toIndex(), block.threads, [&](Expr i) {
    visit(Seen{k.load(leftKeys, {i}), i, {}});
  });
}

/// Few items are left: how many come before each? Two threads count halves.
Selection RadixSelect::rank(const Place &place,
                            llvm::function_ref<void(Expr)> chosen) {
  constexpr int64_t halves = 2;
  Expr zero = k.index(0), count = place.sharing.toIndex();
  auto rankOwn = [&] {
    Expr own = k.thread() / halves, mine = own.min(count - 1);
    Expr key = k.load(leftKeys, {mine}), item = k.load(leftItems, {mine});
    // Eight are in flight together: alone, each would wait for the last.
    Expr before = k.stream(
        k.thread() % halves, count, halves, {k.i32(0)},
        [&](Expr other) {
          return Values{k.load(leftKeys, {other}), k.load(leftItems, {other})};
        },
        [&](Expr, ArrayRef<Expr> theirs, ArrayRef<Expr> sum) {
          Expr earlier =
              theirs[0].above(key) | ((theirs[0] == key) & (theirs[1] < item));
          return Values{sum[0] + earlier.toI32()};
        },
        /*together=*/8)[0];
    before = before + k.shuffleXor(before, 1);
    k.when((own < count) & (k.thread() % halves == 0), [&] {
      k.when(before + 1 == place.remaining, [&] {
        k.store(key, found, {zero});
        k.store(item, found, {k.index(1)});
      });
      if (chosen)
        k.when(before < place.remaining, [&] { chosen(item.toIndex()); });
    });
  };
  k.when(k.warp() * (warpSize / halves) < count, rankOwn);
  k.barrier(); // the last one that is selected is found
  return {k.load(found, {zero}), k.load(found, {k.index(1)})};
}

Selection RadixSelect::finishMany(const Place &place, Expr items,
                                  WalkItems walk, ItemOf itemOf,
                                  llvm::function_ref<void(Expr)> chosen) {
  Place key = refine(place, [&](Count count) {
    walk([&](ArrayRef<Seen> seen) {
      for (const Seen &one : seen)
        if (one.there.valid())
          k.when(one.there, [&] { count(one.key); });
        else
          count(one.key);
    });
  });
  // Of more ties than are wanted the smaller items are selected.
  Expr last = k.choose(
      key.remaining == key.sharing, [&] { return Values{items.toI32()}; },
      [&] { return Values{lastTieOf(key, items, walk, itemOf)}; })[0];
  Selection selection{key.prefix, last};
  if (chosen)
    walk([&](ArrayRef<Seen> seen) {
      for (const Seen &one : seen)
        k.when(one.among(place.has(one.key)), [&] {
          Expr number = itemOf(one.at);
          k.when(selection.contains(one.key, number), [&] { chosen(number); });
        });
    });
  return selection;
}

/// Of the items with a key the `remaining`-th: the complement of its number is the
/// so manyth largest, digit by digit. So many digits as numbers below `items` have.
Expr RadixSelect::lastTieOf(const Place &key, Expr items, WalkItems walk,
                            ItemOf itemOf) {
  Expr digits = k.index(1);
  for (int64_t bits = digitBits; bits < keyBits; bits += digitBits)
    digits = digits + (items > (int64_t(1) << bits)).toI32().toIndex();
  Expr all = (digits * digitBits).toI32();
  Expr ones =
      (all < keyBits)
          .select((k.i32(1) << all.min(k.i32(keyBits - 1))) - 1, k.i32(-1));
  Values found = k.loop(
      0, digits, 1, {k.i32(0), key.remaining},
      [&](Expr digit, ArrayRef<Expr> carried) {
        Expr behind = ((digits - 1 - digit) * digitBits).toI32();
        clear();
        walk([&](ArrayRef<Seen> seen) {
          for (const Seen &one : seen)
            k.when(one.among(one.key == key.prefix), [&] {
              Expr rest = (itemOf(one.at).toI32() ^ ones) >> behind;
              k.when((rest >> digitBits) == carried[0], [&] {
                k.atomicAdd(k.i32(1), histogram,
                            {(rest & (bins - 1)).toIndex()});
              });
            });
        });
        k.barrier(); // the histogram is full
        Place place = find({carried[0], carried[1], {}, 0});
        return Values{place.prefix, place.remaining};
      });
  return found[0] ^ ones;
}
