//===- RadixSelect.cpp - the threshold of an exact top-k, digit by digit --===//

#include "codegen/kernels/RadixSelect.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// Bins of a histogram that a thread reads.
static constexpr int64_t width = 4;

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

SmallVector<Expr> RadixSelect::read(const Buffer &counted, Expr sequence,
                                    Expr head, Expr heads,
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
