//===- RadixSelect.cpp - the threshold of an exact top-k, digit by digit --===//

#include "codegen/kernels/RadixSelect.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// Bins of a histogram that a thread reads.
static constexpr int64_t width = 4;

Expr RadixSelect::Place::has(Expr key) const { return (key >> rest) == prefix; }

Expr RadixSelect::Place::isBelow(Expr key) const {
  return (key >> rest).above(prefix);
}

RadixSelect::RadixSelect(KernelBuilder &k, ThreadBlock &block, int64_t tallies,
                         int64_t room)
    : room(room), k(k), block(block), tallies(tallies) {
  auto numbers = [&](int64_t count) {
    return k.shared(k.b.getI32Type(), count);
  };
  histogram = numbers(bins);
  found = numbers(3);
  places = numbers(2);
  if (tallies)
    counted = numbers(tallies);
  noted = {numbers(room), numbers(room)};
  left = {numbers(few + padding), numbers(few + padding)};
}

RadixSelect::Place RadixSelect::start(Expr wanted) const {
  return {{}, {}, wanted, {}, {}};
}

RadixSelect::Place RadixSelect::behind(Expr firstDigit, Expr remaining) const {
  KeyRange keys = keysOfFirstDigit(k, firstDigit);
  return {keys.prefix, keys.rest, remaining, {}, firstDigit};
}

//===----------------------------------------------------------------------===//
// Histograms
//===----------------------------------------------------------------------===//

void RadixSelect::empty() {
  if (isUsed)
    k.barrier(); // earlier readers are done
  isUsed = true;
  for (int64_t i = 0; i < width; ++i)
    k.store(k.i32(0), histogram, {ownBins() + i});
}

/// The bin of a key that has a place's digits: its next one, of 11 bits or what is left.
Expr RadixSelect::digitOf(const Place &place, Expr key) const {
  if (!place.rest.valid())
    return firstDigit(key).toIndex();
  Expr behind = (place.rest - digitBits).max(k.i32(0));
  Expr last = (k.i32(1) << place.rest.min(k.i32(digitBits))) - 1;
  return ((key >> behind) & last).toIndex();
}

void RadixSelect::add(const Place &place, Expr key) {
  k.atomicAdd(k.i32(1), histogram, {digitOf(place, key)});
}

/// Lanes have bins beside each other.
void RadixSelect::addTo(const Buffer &to, ArrayRef<Expr> row) {
  SmallVector<Expr> counts;
  auto bin = [&](int64_t i) { return k.thread() + i * block.threads; };
  for (int64_t i = 0; i < width; ++i)
    counts.push_back(k.load(histogram, {bin(i)}));
  for (auto [i, count] : llvm::enumerate(counts)) {
    SmallVector<Expr> at(row);
    at.push_back(bin(int64_t(i)));
    k.when(count > 0, [&, count = count] { k.atomicAdd(count, to, at); });
  }
}

RadixSelect::Place RadixSelect::descend(const Place &place,
                                        ArrayRef<Expr> counts) {
  Bin bin = findBin(place.remaining, counts);
  if (!place.rest.valid()) {
    Place first = behind(bin.digit, bin.remaining);
    first.sharing = bin.sharing;
    return first;
  }
  Expr digit = place.rest.min(k.i32(digitBits));
  return {(place.prefix << digit) | bin.digit,
          place.rest - digit,
          bin.remaining,
          bin.sharing,
          {}};
}

/// The threads' bins go down from the largest one, each thread's up.
Expr RadixSelect::ownBins() const {
  assert(bins == width * block.threads && "each thread has a part");
  return (k.index(block.threads - 1) - k.thread()) * width;
}

SmallVector<Expr> RadixSelect::readShared() const {
  Expr vector = k.loadVector(histogram, {ownBins()}, width);
  SmallVector<Expr> counts;
  for (int64_t i = 0; i < width; ++i)
    counts.push_back(k.element(vector, i));
  return counts;
}

SmallVector<Expr> RadixSelect::read(const Buffer &counted, Expr sequence,
                                    Expr head, Expr heads,
                                    llvm::function_ref<Expr(Expr)> takesPart) {
  auto ofHead = [&](Expr head) {
    Values four;
    Expr vector = k.loadVector(counted, {sequence, head, ownBins()}, width);
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

/// From the largest bin down: the thread that has it says which it is.
RadixSelect::Bin RadixSelect::findBin(Expr remaining, ArrayRef<Expr> counts) {
  Expr local = counts[0];
  for (Expr count : counts.drop_front())
    local = local + count;
  Expr before = block.exclusiveSum(local);
  k.when((before < remaining) & (remaining <= before + local), [&] {
    // Of the thread's bins the lowest that too few are above.
    Expr bin, count, front, above = before;
    for (int64_t i = width - 1; i >= 0; --i) {
      Expr digit = k.i32(i), holds = above < remaining;
      bin = bin.valid() ? holds.select(digit, bin) : digit;
      front = front.valid() ? holds.select(above, front) : above;
      count = count.valid() ? holds.select(counts[i], count) : counts[i];
      above = above + counts[i];
    }
    k.store(ownBins().toI32() + bin, found, {k.index(0)});
    k.store(remaining - front, found, {k.index(1)});
    k.store(count, found, {k.index(2)});
  });
  k.barrier(); // the bin is found
  return {k.load(found, {k.index(0)}), k.load(found, {k.index(1)}),
          k.load(found, {k.index(2)})};
}
