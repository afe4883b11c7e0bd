//===- SegmentRanks.cpp - places of scores in their segment ---------------===//

#include "codegen/kernels/SegmentRanks.h"

#include "codegen/kernels/RadixSelect.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

/// Keys of one vector access to shared memory, and of one step.
static constexpr int64_t together = 4, ahead = 16;

void SegmentRanks::add(SegmentOp op, int64_t tokens, bool all) {
  constexpr int64_t bytes = 8192;
  int64_t members =
      headsOf(op.getType()) == Axis::QueryHeads ? k.shape.group : 1;
  int64_t row = llvm::alignTo(tokens, ahead);
  if (members * row * 4 > bytes)
    return;
  staged[op] = {k.shared(k.b.getI32Type(), members * row, {k.index(row)}), row,
                all};
}

void SegmentRanks::run(SegmentOp op, const RowBlock &tokens) {
  auto keys = staged.find(op);
  if (keys == staged.end())
    return;
  RowBlock row = tokens;
  // Behind an earlier segment's last reader stands the barrier of its stores.
  k.when(row.tokens() < keys->second.most + 1, [&] {
    Expr padded = (row.tokens() + (ahead - 1)) / ahead * ahead;
    k.loop(k.thread(), padded, row.block.threads, [&](Expr i) {
      Expr token = row.begin + i, last = row.end - 1;
      PointEval eval = row.at(token.min(last));
      for (int64_t j = 0; j < row.members(op); ++j) {
        Expr key = orderedKey(k, eval(op.getValue(), int(j)));
        k.store((token < row.end).select(key, k.i32(-1)), keys->second.memory,
                {k.index(j), i});
      }
    });
  });
  k.barrier();
}

Expr SegmentRanks::at(SegmentOp op, const RowBlock &tokens, const Point &point,
                      Expr value) const {
  Expr key = orderedKey(k, value);
  auto keys = staged.find(op);
  if (keys == staged.end())
    return oneByOne(op, tokens, point, key).toFloat();
  if (keys->second.all)
    return amongStaged(keys->second.memory, tokens, point, key).toFloat();
  return k
      .choose(
          tokens.tokens() < keys->second.most + 1,
          [&] {
            return KernelBuilder::Values{
                amongStaged(keys->second.memory, tokens, point, key)};
          },
          [&] {
            return KernelBuilder::Values{oneByOne(op, tokens, point, key)};
          })[0]
      .toFloat();
}

/// Equal keys stand after it where they do in the cache. Of each four that is all or
/// none, but of the token's own.
Expr SegmentRanks::amongStaged(const Buffer &keys, const RowBlock &tokens,
                               const Point &point, Expr key) const {
  auto four = [&](Expr first) {
    return k.loadVector(keys, {k.index(std::max(point.member, 0)), first},
                        together);
  };
  Expr own = (point.token - tokens.begin).toI32();
  Expr count = tokens.tokens().toI32();
  Expr rank = k.fold(0, (tokens.tokens() + (ahead - 1)) / ahead, 1, k.i32(0),
                     [&](Expr step, Expr acc) {
                       Expr sum = k.i32(0);
                       for (int64_t done = 0; done < ahead; done += together) {
                         Expr first = step * ahead + done;
                         // The padding is above one more than any key.
                         Expr limit = key + (own < first.toI32()).toI32();
                         Expr theirs = four(first);
                         for (int64_t i = 0; i < together; ++i)
                           sum =
                               sum + limit.above(k.element(theirs, i)).toI32();
                       }
                       return acc + sum;
                     });
  Expr among = own.min(count - 1).max(k.i32(0)); // there may be no tokens
  Expr theirs = four((among / together * together).toIndex());
  for (int64_t i = 0; i < together; ++i) {
    Expr behind = (own % together < i) & (own >= 0);
    rank = rank + ((k.element(theirs, i) == key) & behind).toI32();
  }
  return rank;
}

Expr SegmentRanks::oneByOne(SegmentOp op, const RowBlock &tokens,
                            const Point &point, Expr key) const {
  return k.fold(
      tokens.begin, tokens.end, 1, k.i32(0), [&](Expr token, Expr acc) {
        Point other = point;
        other.token = token;
        PointEval eval(k, tokens.s, tokens.leaf, other);
        Expr theirs = orderedKey(k, eval(op.getValue(), point.member));
        Expr after =
            key.above(theirs) | ((key == theirs) & (point.token < token));
        return acc + after.toI32();
      });
}
