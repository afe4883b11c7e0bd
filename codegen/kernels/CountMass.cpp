//===- CountMass.cpp - how many of the best scores leave little behind ----===//

#include "codegen/kernels/CountMass.h"

#include "codegen/kernels/SelectedScores.h"

using namespace mlir;
using namespace kvc;

/// Of the bits behind a digit so many are added up together: 2^24 of them fit.
static constexpr int64_t pieceBits = 7;
static constexpr int64_t infinityBits = 0x7f800000, mantissaBits = 23;

static int64_t piecesOf(int64_t rest) {
  return (rest + pieceBits - 1) / pieceBits;
}

MassCounter::MassCounter(KernelBuilder &k, ThreadBlock &block)
    : k(k), block(block) {
  Type i32 = k.b.getI32Type();
  counts = k.shared(i32, bins);
  for (int64_t i = 0; i < piecesOf(keyBits - digitBits); ++i)
    pieces.push_back(k.shared(i32, bins));
  warpTotals = k.shared(k.b.getF32Type(), block.threads / warpSize);
}

/// Adds the scores to the bins of their digits behind the known bits.
void MassCounter::fill(const Place &place, int64_t digit, RowBlock &r,
                       CountMassOp op) {
  int64_t rest = keyBits - place.known - digit;
  k.barrier(); // earlier readers are done
  k.loop(k.thread(), bins, block.threads, [&](Expr bin) {
    k.store(k.i32(0), counts, {bin});
    for (int64_t i = 0; i < piecesOf(rest); ++i)
      k.store(k.i32(0), pieces[i], {bin});
  });
  k.barrier(); // they are empty
  constexpr int64_t together = 8;
  auto add = [&](Expr score) {
    Expr key = orderedKey(k, score);
    auto addToBin = [&] {
      Expr bin = ((key >> rest) & ((1 << digit) - 1)).toIndex();
      k.atomicAdd(k.i32(1), counts, {bin});
      for (int64_t i = 0; i < piecesOf(rest); ++i) {
        int64_t bits = std::min(pieceBits, rest - i * pieceBits);
        Expr piece = (score.bits() >> (i * pieceBits)) & ((1 << bits) - 1);
        k.atomicAdd(piece, pieces[i], {bin});
      }
    };
    if (!place.known)
      return addToBin();
    k.when((key >> (keyBits - place.known)) == place.prefix, addToBin);
  };
  k.stream(
      r.begin + k.thread(), r.end, block.threads, {},
      [&](Expr token) { return RowBlock::Values{r.at(token)(op.getScore())}; },
      [&](Expr, ArrayRef<Expr> made, ArrayRef<Expr>) {
        add(made[0]);
        return RowBlock::Values();
      },
      together);
  k.barrier(); // they are full
}

/// What scores add up to that have all but the last `rest` bits of a key: as many times
/// the least in size of them, and what the others have more. NaN adds nothing.
Expr MassCounter::massOf(Expr key, int64_t rest, Expr count,
                         ArrayRef<Expr> parts) {
  Expr size = scoreBits(k, key) & (0x7fffffff & -(int64_t(1) << rest));
  Expr mass = count.toFloat() * size.asFloat();
  if (rest) {
    Expr more = k.f32(0);
    for (auto [i, part] : llvm::enumerate(parts))
      more = more + part.toFloat() * k.f32(double(1 << (i * pieceBits)));
    // Below the normal numbers all have the unit of the smallest of these.
    Expr exponent = (size >> mantissaBits).max(k.i32(1));
    Expr unit = (exponent << k.i32(mantissaBits)).asFloat();
    Expr finite = size < infinityBits;
    mass = finite.select(mass + more * k.f32(0x1p-23) * unit, mass);
  }
  Expr number = (count > 0) & (size <= k.i32(infinityBits));
  mass = (key < 0).select(mass, k.f32(0) - mass);
  return number.select(mass, k.f32(0));
}

/// Of the values of the threads in front, added up in a fixed order.
Expr MassCounter::sumInFront(Expr value) {
  Expr inclusive = inclusiveSum(k, value), lane = k.lane();
  Expr inWarp = (lane >= 1).select(k.shuffleUp(inclusive, 1), k.f32(0));
  k.when(lane == warpSize - 1,
         [&] { k.store(inclusive, warpTotals, {k.warp()}); });
  k.barrier();
  Expr front = k.f32(0);
  for (int64_t other = 0; other < block.threads / warpSize; ++other) {
    Expr total = k.load(warpTotals, {k.index(other)});
    front = front + (k.warp() > k.index(other)).select(total, k.f32(0));
  }
  return front + inWarp;
}

MassCounter::Place MassCounter::descend(const Place &place, RowBlock &r,
                                        CountMassOp op, Expr least) {
  int64_t digit = std::min(digitBits, keyBits - place.known),
          rest = keyBits - place.known - digit, own = bins / block.threads;
  fill(place, digit, r, op);
  // The thread's bins follow each other.
  Expr first = k.thread() * own;
  RowBlock::Values number, mass;
  Expr sum = k.f32(0);
  for (int64_t i = 0; i < own; ++i) {
    Expr bin = first + i;
    number.push_back(k.load(counts, {bin}));
    RowBlock::Values parts;
    for (int64_t piece = 0; piece < piecesOf(rest); ++piece)
      parts.push_back(k.load(pieces[piece], {bin}));
    Expr prefix = bin.toI32();
    if (place.known)
      prefix = prefix | (place.prefix << k.i32(digit));
    Expr key = rest ? prefix << k.i32(rest) : prefix;
    mass.push_back(massOf(key, rest, number[i], parts));
    sum = sum + mass[i];
  }
  // The thread alone has read the first pieces of its bins.
  const Buffer &below = pieces[0];
  Expr running = place.mass + sumInFront(sum);
  for (int64_t i = 0; i < own; ++i) {
    k.store(running.bits(), below, {first + i});
    running = running + mass[i];
  }
  k.barrier(); // sums below all bins are there
  auto massBelow = [&](Expr bin) {
    return k.load(below, {bin.toIndex()}).asFloat();
  };
  // Sums from the lowest score on fall as long as scores are negative, then they rise;
  // the first bit of a key parts the two.
  Expr found = k.i32(0);
  for (int64_t bit = digit - 1; bit >= 0; --bit) {
    Expr higher = found | k.i32(1 << bit);
    found = (massBelow(higher) <= least).select(higher, found);
  }
  Place next;
  next.known = place.known + digit;
  next.prefix = place.known ? (place.prefix << k.i32(digit)) | found : found;
  next.mass = massBelow(found);
  next.equal = k.load(counts, {found.toIndex()});
  next.above = place.above;
  for (int64_t i = 0; i < own; ++i) {
    Expr isAbove = found < (first + i).toI32();
    next.above = next.above + isAbove.select(number[i].toFloat(), k.f32(0));
  }
  return next;
}

/// The smallest number of best scores that leave at most `all_but`: the largest key
/// below which no more than that lies, then as many of that key as still fit.
Expr MassCounter::count(RowBlock &r, CountMassOp op) {
  Expr least = evalScalar(k, r.s, op.getAllBut());
  Place place{k.i32(0), k.f32(0), {}, k.f32(0)};
  while (place.known < keyBits)
    place = descend(place, r, op, least);
  // Infinite scores below make this NaN or infinite, an infinite limit as well.
  Expr left = least - place.mass;
  Expr above = block.reduce(ReduceKind::Sum, place.above);
  Expr equal = place.equal.toFloat();
  Expr value = scoreBits(k, place.prefix).asFloat();
  // An infinite score that fitted would have had a larger key.
  Expr infinity = k.f32(std::numeric_limits<double>::infinity());
  Expr fitting = (value < infinity).select(left / value, k.f32(0));
  Expr drop = (value > k.f32(0)).select(fitting, equal);
  drop = k.expr(math::FloorOp::create(k.b, drop.max(k.f32(0)).min(equal)));
  // Who has no score of the key drops none, whatever the key stands for.
  drop = (equal > k.f32(0)).select(drop, k.f32(0));
  // Nothing left out is 0: below a negative rest not even that fits.
  Expr count = (place.mass <= least).select(above + equal - drop, r.count());
  return k.expr(count).truncate();
}
