//===- ShortPasts.cpp - selection over blocks without lists ---------------===//
//
// Of a short past a block that asks which of its head's tokens are selected walks all of
// them: those that have the threshold's first digit it notes in shared memory, counts
// their second digits there, and of each split how many are above them. That is what
// kvc.list_candidates does for all blocks together where the past is long. All blocks look
// at all tokens, but at 2 bytes of each, of the L2 cache (kvc.key_prefix), and a launch is
// saved. Scores are read, and keys made, of the few that are noted; of all tokens where more
// share the digit than there is room for, whose second digits are counted first.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Candidates.h"
#include "codegen/kernels/KeyPrefixes.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

static_assert(longestWithoutLists == RowSplits::most * splitTokens,
              "no split is longer");

namespace {
/// One walk of a block over all tokens of its head. Those above the digits of `place` are
/// tallied by split, if `counts`. Those that have them are noted, or if there is no room for
/// all of them counted by their next digit.
class HeadWalk {
public:
  using KeyAt = llvm::function_ref<Expr(Expr token)>;
  HeadWalk(KernelBuilder &k, RowBlock &row, RadixSelect &radix,
           const Buffer &prefixes, const RadixSelect::Place &place, KeyAt keyAt,
           Expr areNoted, bool counts)
      : k(k), row(row), radix(radix), prefixes(prefixes), place(place),
        keyAt(keyAt), areNoted(areNoted), past(row.s.past), counts(counts) {}

  /// `isFirst`: whether the place is one of first digits alone.
  void run(Expr isFirst) {
    auto keys = [&] { return byKeys(); };
    auto prefixes = [&] { return byPrefixes(); };
    k.eitherForm(keys,
                 [&] { return k.choose(isFirst & areNoted, prefixes, keys); });
  }

private:
  /// Tokens that a warp reads together, two of a lane in each of four words, and those of
  /// all warps; how many times a word has a bit for each of a lane's.
  static constexpr int64_t ofWarp = prefixesTogether,
                           words = ofWarp / (2 * warpSize),
                           step = RowBlock::threads / warpSize * ofWarp,
                           loads = 32 / (2 * words);
  static constexpr uint32_t highest = 0x80008000; // bits of two prefixes

  Values prefixAt(Expr token) { return {row.s.sequence, row.head, token}; }
  Values byKeys();
  Values byPrefixes();
  Values compare(Expr first, int64_t many);
  Expr those(Expr first);
  void tally(Expr first, Expr above);
  void note(Expr first, Expr bits);

  KernelBuilder &k;
  RowBlock &row;
  RadixSelect &radix;
  const Buffer &prefixes;
  const RadixSelect::Place &place;
  const KeyAt keyAt;
  const Expr areNoted, past;
  const bool counts;
};
} // namespace

Values HeadWalk::byKeys() {
  return k.streamOver(
      k.thread(), past, RowBlock::threads, {},
      [&](Expr token) { return Values{keyAt(token.min(past - 1))}; },
      [&](Expr token, ArrayRef<Expr> key, ArrayRef<Expr>) {
        Expr exists = token < past;
        if (counts)
          k.when(exists & place.isBelow(key[0]),
                 [&] { radix.tally(token / splitTokens); });
        k.when(exists & place.has(key[0]), [&] {
          k.choose(
              areNoted,
              [&] {
                radix.noteAt(radix.takeSlots(k.i32(1)), token);
                return Values();
              },
              [&] {
                radix.add(place, key[0]);
                return Values();
              });
        });
        return Values();
      },
      /*together=*/8);
}

/// A warp has two splits at a time, and where the past is as long four times two. Of each of
/// its tokens a lane has a bit in two words: whether it is above the first digit, and whether
/// it is so or has it. Few are, so nothing else is done until the words are full.
Values HeadWalk::byPrefixes() {
  static_assert(ofWarp == 2 * splitTokens);
  k.loop(k.warp() * ofWarp, past, loads * step, [&](Expr first) {
    Expr more = first + step < past, last = first + (loads - 1) * step;
    auto read = [&](int64_t many) {
      return [this, first, many] { return compare(first, many); };
    };
    Values bits = k.choose(more, read(loads), read(1));
    bits = k.choose(
        more.select(last, first) + ofWarp <= past, [&] { return bits; },
        [&] {
          Expr mask = those(first);
          return Values{bits[0] & mask, bits[1] & mask};
        });
    if (counts)
      tally(first, bits[0]);
    note(first, bits[0] ^ bits[1]);
  });
  return {};
}

/// The two words. Bits go down with loads and words, those of the second splits 16 bits
/// higher.
Values HeadWalk::compare(Expr first, int64_t many) {
  SmallVector<Expr> loaded;
  for (int64_t load = 0; load < many; ++load) {
    Expr base = first + load * step;
    Expr safe = (base < past).select(base, first) + k.lane();
    for (int64_t word = 0; word < words; ++word)
      loaded.append(k.registers(
          k.loadVector(prefixes, prefixAt(safe + word * warpSize), 2)));
  }
  Expr above = k.i32(0), from = k.i32(0);
  // Prefixes with the digit, without their highest bit: from the least one on, below another.
  Expr rest = place.rest - (keyBits - prefixBits), least = place.prefix << rest;
  Expr behind = least + (k.i32(1) << rest), both = k.i32(0x10001);
  Expr ofLeast = least * both, ofBehind = behind * both;
  for (auto [at, two] : llvm::enumerate(loaded)) {
    auto push = [&, at = at, two = two](Expr word, Expr than) {
      Expr bits = (two - than) >> int64_t(at);
      return word | (bits & k.i32(int32_t(highest >> at)));
    };
    above = push(above, ofBehind);
    from = push(from, ofLeast);
  }
  return {above, from};
}

/// The bits of tokens that there are.
Expr HeadWalk::those(Expr first) {
  Expr mask = k.i32(0);
  for (int64_t load = 0; load < loads; ++load)
    for (int64_t split : {0, 1}) {
      Expr token = first + (load * step + split * splitTokens) + k.lane();
      Expr left = (past - token).max(k.index(0)).min(k.index(splitTokens));
      Expr count = ((left + (warpSize - 1)) / warpSize).toI32();
      Expr bits = (k.i32(0xf0) >> count) & 0xf;
      mask = mask | bits << (split * 16 + (loads - 1 - load) * words);
    }
  return mask;
}

/// Of each split how many of its tokens have a bit. A lane's are four bits; of all lanes' sums
/// four fit into a word, those of two loads.
void HeadWalk::tally(Expr first, Expr above) {
  static_assert(splitTokens < 1 << 8 && loads == 4 && words == 4);
  auto masked = [&](Expr bits, uint32_t mask) {
    return bits & k.i32(int32_t(mask));
  };
  Expr two = above - masked(above >> 1, 0x55555555);
  Expr four = masked(two, 0x33333333) + masked(two >> 2, 0x33333333);
  Expr odd = k.sumOfLanes(masked(four, 0x0f0f0f0f)),
       even = k.sumOfLanes(masked(four >> 4, 0x0f0f0f0f));
  Expr load = k.lane() / 2, split = k.lane() % 2;
  Expr token = first + load * step + split * splitTokens;
  k.when((k.lane() < 2 * loads) & (token < past), [&] {
    Expr byte = split * 2 + (k.index(1) - load / 2);
    Expr sums = (load % 2 == 0).select(even, odd);
    radix.tally(token / splitTokens, (sums >> (byte * 8).toI32()) & 0xff);
  });
}

/// The tokens that the bits stand for.
void HeadWalk::note(Expr first, Expr bits) {
  Expr count = k.popcount(bits);
  k.when(count > 0, [&] {
    Expr slot = radix.takeSlots(count);
    k.loop(k.index(0), count.toIndex(), 1, {bits},
           [&](Expr i, ArrayRef<Expr> left) {
             Expr others = left[0] & (left[0] - 1);
             Expr bit = k.popcount((left[0] ^ others) - 1);
             Expr number = (bit & 0xf) ^ k.i32(0xf);
             Expr token = first + (number / words).toIndex() * step +
                          (bit >> 4).toIndex() * splitTokens +
                          (number % words).toIndex() * warpSize + k.lane();
             radix.noteAt(slot + i.toI32(), token);
             return Values{others};
           });
  });
}

Candidates::Places Candidates::notePrefixes(RowBlock &row, RadixSelect &radix,
                                            Expr wanted, bool counts) const {
  SmallVector<Expr> bins = radix.read(digits, sequence, row.head);
  radix.begin();
  RadixSelect::Place first = radix.descend(radix.start(wanted.toI32()), bins);
  auto fits = [&](const RadixSelect::Place &at) {
    return at.sharing <= k.i32(radix.room);
  };
  // Where too many share the first digit, those that have the second as well are noted.
  Expr walks = fits(first).select(k.index(1), k.index(2));
  auto valuesOf = [](const RadixSelect::Place &at) {
    return Values{at.prefix, at.rest, at.remaining, at.sharing};
  };
  auto placeOf = [](ArrayRef<Expr> of) {
    return RadixSelect::Place{of[0], of[1], of[2], of[3], {}};
  };
  Values start = valuesOf(first);
  start.append(valuesOf(first));
  Values known = k.loop(0, walks, 1, start, [&](Expr walk, ArrayRef<Expr> of) {
    RadixSelect::Place at = placeOf(of.take_back(4));
    k.when(walk > 0, [&] {
      radix.begin();
      k.barrier(); // nothing is noted
    });
    Expr areNoted = fits(at);
    auto key = [&](Expr token) { return keyAt(row, token); };
    HeadWalk(k, row, radix, prefixes, at, key, areNoted, counts).run(walk == 0);
    k.barrier(); // all are noted
    k.when(areNoted, [&] { radix.makeKeys(at, key); });
    k.barrier(); // all are counted
    Values next = valuesOf(at);
    next.append(valuesOf(radix.descend(at, radix.readShared())));
    return next;
  });
  RadixSelect::Place place = placeOf(known);
  return {place, placeOf(ArrayRef<Expr>(known).take_back(4)), fits(place)};
}
