//===- CandidateLists.cpp - digits counted and candidates listed ----------===//

#include "codegen/kernels/CandidateLists.h"

#include "dialect/Behind.h"

#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// True where a value at a token is made of operands and of what is run in front of
/// an op.
static bool isMadeInFrontOf(Operation *op, Value value) {
  bool all = true;
  walkBehind(value, [&](Value behind) {
    Operation *def = behind.getDefiningOp();
    bool pointwise = def && (def->hasTrait<OpTrait::Elementwise>() ||
                             isa<BroadcastOp, PoolOp>(def));
    all &= !def || pointwise || def->isBeforeInBlock(op);
    return pointwise;
  });
  return all;
}

/// Scores that later kernels read are stored as they are counted, what they read beside
/// them, most of which is made of the same, and what they compare of their keys.
static void storeWhatIsRead(RowBlock &row, CountDigitsOp op) {
  auto yield = cast<YieldOp>(op->getBlock()->getTerminator());
  auto isRow = [](Value value) {
    return axesOf(value.getType()) == AxisList{Axis::KVHeads, Axis::Past};
  };
  bool storesScore = isRow(op.getScore()) &&
                     llvm::is_contained(yield.getValues(), op.getScore());
  for (Value value : yield.getValues()) {
    auto prefix = value.getDefiningOp<KeyPrefixOp>();
    bool isPrefix = prefix && prefix.getScore() == op.getScore();
    if (isPrefix || (storesScore && isRow(value) && isMadeInFrontOf(op, value)))
      row.storeAlongside(value);
  }
}

void kvc::countDigits(RowBlock &row, RadixSelect &radix, CountDigitsOp op) {
  storeWhatIsRead(row, op);
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
  row.alongside.clear();
  k.barrier(); // the histogram is full
  radix.addTo(digits, {row.s.sequence, row.head});
}

void kvc::listCandidates(RowBlock &row, RadixSelect &radix, ListCandidatesOp op,
                         const Buffer &digits, HeadShares *shares,
                         Expr isListed) {
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
    isRanked = isListed;
  }
  auto takesPart = [&](Expr head) { return shares->takesPart(head); };
  k.when((wanted > 0) & (wanted < items) & isRanked, [&] {
    // So many tokens a thread at a time, a warp's in one split, the first ones read before
    // the digit is known.
    constexpr int64_t each = splitTokens / warpSize,
                      together = each * RowBlock::threads;
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
        row.begin, row.end, together, begin,
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
          Expr next = first + together;
          return k.choose(
              next < row.end, [&] { return read(next); },
              [&] { return Values(own.begin(), own.end()); });
        });
    // Behind the loop's barriers.
    radix.addTo(row.outputOf(op.getSecond()), {s.sequence, threshold});
  });
}
