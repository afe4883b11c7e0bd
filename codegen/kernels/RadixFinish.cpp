//===- RadixFinish.cpp - the selection among items that share two digits --===//

#include "codegen/kernels/RadixSelect.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

void RadixSelect::clear() {
  isUsed = true; // by the last digit, where it is in a loop
  empty();
  k.barrier(); // the histogram is empty
}

/// All digits behind those of a place.
RadixSelect::Place RadixSelect::refine(Place place, Walk walk) {
  Expr steps = (place.rest + (digitBits - 1)).toIndex() / digitBits;
  Values key = k.loop(
      0, steps, 1, {place.prefix, place.rest, place.remaining, place.sharing},
      [&](Expr, ArrayRef<Expr> known) {
        Place place{known[0], known[1], known[2], known[3], {}};
        clear();
        walk([&](ArrayRef<Seen> seen) {
          for (const Seen &one : seen)
            k.when(one.among(place.has(one.key)), [&] { add(place, one.key); });
        });
        k.barrier(); // the histogram is full
        Place next = descend(place, readShared());
        return Values{next.prefix, next.rest, next.remaining, next.sharing};
      });
  return {key[0], key[1], key[2], key[3], {}};
}

//===----------------------------------------------------------------------===//
// The end of the search
//===----------------------------------------------------------------------===//

void RadixSelect::begin(llvm::function_ref<Expr(Expr)> tally) {
  empty();
  k.when(k.thread() < 2, [&] { k.store(k.i32(0), places, {k.thread()}); });
  for (int64_t first = 0; first < tallies; first += block.threads) {
    Expr number = k.thread() + first;
    k.store(tally ? tally(number) : k.i32(0), counted, {number});
  }
}

void RadixSelect::put(int64_t place, ArrayRef<Expr> has,
                      llvm::function_ref<void(size_t, Expr)> store) {
  Expr count = k.i32(0);
  for (Expr one : has)
    count = count + one.toI32();
  k.when(count > 0, [&] {
    Expr slot = k.atomicAdd(count, places, {k.index(place)});
    for (auto [i, one] : llvm::enumerate(has)) {
      k.when(one, [&, i = i] { store(i, slot); });
      slot = slot + one.toI32();
    }
  });
}

static void storeItem(KernelBuilder &k, const Buffer &keys, const Buffer &items,
                      const RadixSelect::Seen &one, Expr slot) {
  k.store(one.key, keys, {slot.toIndex()});
  k.store(one.item.toI32(), items, {slot.toIndex()});
}

void RadixSelect::note(ArrayRef<Expr> has, ArrayRef<Seen> seen) {
  put(0, has, [&](size_t i, Expr slot) {
    k.when(slot < room,
           [&] { storeItem(k, noted.keys, noted.items, seen[i], slot); });
  });
}

Expr RadixSelect::takeSlots(Expr count) {
  return k.atomicAdd(count, places, {k.index(0)});
}

void RadixSelect::noteAt(Expr slot, Expr item) {
  k.when(slot < room,
         [&] { k.store(item.toI32(), noted.items, {slot.toIndex()}); });
}

void RadixSelect::makeKeys(const Place &place,
                           llvm::function_ref<Expr(Expr)> keyOf) {
  Expr count = countNoted();
  k.streamOver(
      k.thread(), count, block.threads, {},
      [&](Expr i) {
        Expr item = k.load(noted.items, {i.min(count - 1)});
        return Values{keyOf(item.toIndex())};
      },
      [&](Expr i, ArrayRef<Expr> key, ArrayRef<Expr>) {
        k.when(i < count, [&] {
          k.store(key[0], noted.keys, {i});
          add(place, key[0]);
        });
        return Values();
      },
      2);
}

Expr RadixSelect::countNoted() const {
  return k.load(places, {k.index(0)}).toIndex().min(k.index(room));
}

RadixSelect::Seen RadixSelect::notedAt(Expr number) const {
  return {k.load(noted.keys, {number}),
          k.load(noted.items, {number}).toIndex(),
          {}};
}

void RadixSelect::walkNoted(Visit visit) const {
  k.loop(k.thread(), countNoted(), block.threads,
         [&](Expr i) { visit(notedAt(i)); });
}

Selection RadixSelect::finish(const Place &place, Expr items, Expr areNoted,
                              Walk again, Chosen chosen) {
  auto values = [](const Selection &s) {
    return Values{s.threshold, s.lastTie};
  };
  Values result = k.choose(
      areNoted & (place.sharing <= k.i32(few)),
      [&] {
        gather(place, chosen);
        return values(rank(place, chosen));
      },
      [&] { return values(finishMany(place, items, again, chosen)); });
  return {result[0], result[1]};
}

/// What is left, in any order: it is looked at several times, and what comes of it does
/// not depend on the order.
void RadixSelect::gather(const Place &place, Chosen chosen) {
  walkNoted([&](ArrayRef<Seen> seen) {
    const Seen &one = seen.front();
    if (chosen)
      k.when(place.isBelow(one.key), [&] { chosen(one.item); });
    put(1, place.has(one.key), [&](size_t, Expr slot) {
      storeItem(k, left.keys, left.items, one, slot);
    });
  });
  // Behind the last one stand some that come before none, so that rank() need not ask
  // whether there is another.
  Expr behind = place.sharing.toIndex() + k.thread();
  k.when(k.thread() < padding, [&] {
    k.store(k.i32(0), left.keys, {behind});
    k.store(k.i32(INT32_MAX), left.items, {behind});
  });
  k.barrier(); // all are there
}

/// Few items are left: how many come before each? Two threads count halves.
Selection RadixSelect::rank(const Place &place, Chosen chosen) {
  Expr zero = k.index(0), count = place.sharing.toIndex();
  auto rankOwn = [&] {
    Expr own = k.thread() / halves, mine = own.min(count - 1);
    Expr key = k.load(left.keys, {mine}), item = k.load(left.items, {mine});
    // Eight are in flight together: alone, each would wait for the last.
    Expr before = k.streamOver(
        k.thread() % halves, count, halves, {k.i32(0)},
        [&](Expr other) {
          return Values{k.load(left.keys, {other}),
                        k.load(left.items, {other})};
        },
        [&](Expr, ArrayRef<Expr> theirs, ArrayRef<Expr> sum) {
          Expr earlier =
              theirs[0].above(key) | ((theirs[0] == key) & (theirs[1] < item));
          return Values{sum[0] + earlier.toI32()};
        },
        together)[0];
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

Selection RadixSelect::finishMany(const Place &place, Expr items, Walk walk,
                                  Chosen chosen) {
  Place key = refine(place, walk);
  // Of more ties than are wanted the smaller items are selected.
  Expr last = k.choose(
      key.remaining == key.sharing, [&] { return Values{items.toI32()}; },
      [&] { return Values{lastTieOf(key, items, walk)}; })[0];
  Selection selection{key.prefix, last};
  if (!chosen)
    return selection;
  walk([&](ArrayRef<Seen> seen) {
    for (const Seen &one : seen)
      k.when(one.among(selection.contains(one.key, one.item)),
             [&] { chosen(one.item); });
  });
  k.barrier(); // everybody has been told
  return selection;
}

/// Of the items with a key the `remaining`-th: the complement of its number is the
/// so manyth largest, digit by digit. So many digits as numbers below `items` have.
Expr RadixSelect::lastTieOf(const Place &key, Expr items, Walk walk) {
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
              Expr rest = (one.item.toI32() ^ ones) >> behind;
              k.when((rest >> digitBits) == carried[0], [&] {
                k.atomicAdd(k.i32(1), histogram,
                            {(rest & (bins - 1)).toIndex()});
              });
            });
        });
        k.barrier(); // the histogram is full
        Bin bin = findBin(carried[1], readShared());
        return Values{(carried[0] << digitBits) | bin.digit, bin.remaining};
      });
  return found[0] ^ ones;
}
