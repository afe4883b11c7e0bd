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

Selection RadixSelect::finish(const Place &place, Expr items, Walk walk,
                              Visit visited, Chosen chosen) {
  auto values = [](const Selection &s) {
    return Values{s.threshold, s.lastTie};
  };
  k.barrier(); // what was found has been read
  k.when(k.thread() == 0, [&] { k.store(k.i32(0), found, {k.index(3)}); });
  if (visited) // and chosen
    for (int64_t first = 0; first < tallies; first += block.threads)
      k.store(k.i32(0), counted, {k.thread() + first});
  k.barrier(); // none is left yet, and nothing counted
  Values result = k.choose(
      place.sharing <= k.i32(most),
      [&] {
        gather(place, walk, visited);
        return k.choose(
            place.sharing <= k.i32(few),
            [&] { return values(rank(place, chosen)); },
            [&] {
              auto left = [&](Visit visit) { walkLeft(place, visit); };
              return values(finishMany(place, items, left, chosen));
            });
      },
      [&] {
        if (visited)
          walk(visited);
        return values(finishMany(place, items, walk, chosen));
      });
  return {result[0], result[1]};
}

/// What is left, in any order, into shared memory: it is looked at several times, and
/// what comes of it does not depend on the order.
void RadixSelect::gather(const Place &place, Walk walk, Visit visited) {
  walk([&](ArrayRef<Seen> seen) {
    if (visited)
      visited(seen);
    // A thread has one wait for all that it found.
    SmallVector<Expr> has;
    Expr count = k.i32(0);
    for (const Seen &one : seen) {
      has.push_back(one.among(place.has(one.key)));
      count = count + has.back().toI32();
    }
    k.when(count > 0, [&] {
      Expr slot = k.atomicAdd(count, found, {k.index(3)});
      for (auto [one, is] : llvm::zip(seen, has)) {
        k.when(is, [&, one = one] {
          k.store(one.key, leftKeys, {slot.toIndex()});
          k.store(one.item.toI32(), leftItems, {slot.toIndex()});
        });
        slot = slot + is.toI32();
      }
    });
  });
  // Behind the last one stand some that come before none, so that rank() need not ask
  // whether there is another.
  Expr behind = place.sharing.toIndex() + k.thread();
  k.when((k.thread() < padding) & (behind < most), [&] {
    k.store(k.i32(0), leftKeys, {behind});
    k.store(k.i32(INT32_MAX), leftItems, {behind});
  });
  k.barrier(); // all are there
}

void RadixSelect::walkLeft(const Place &place, Visit visit) {
  k.loop(k.thread(), place.sharing.toIndex(), block.threads, [&](Expr i) {
    visit(Seen{k.load(leftKeys, {i}), k.load(leftItems, {i}).toIndex(), {}});
  });
}

/// Few items are left: how many come before each? Two threads count halves.
Selection RadixSelect::rank(const Place &place, Chosen chosen) {
  Expr zero = k.index(0), count = place.sharing.toIndex();
  auto rankOwn = [&] {
    Expr own = k.thread() / halves, mine = own.min(count - 1);
    Expr key = k.load(leftKeys, {mine}), item = k.load(leftItems, {mine});
    // Eight are in flight together: alone, each would wait for the last.
    Expr before = k.streamOver(
        k.thread() % halves, count, halves, {k.i32(0)},
        [&](Expr other) {
          return Values{k.load(leftKeys, {other}), k.load(leftItems, {other})};
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
      k.when(one.among(place.has(one.key)), [&] {
        k.when(selection.contains(one.key, one.item),
               [&] { chosen(one.item); });
      });
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
