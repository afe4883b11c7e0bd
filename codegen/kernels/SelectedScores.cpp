//===- SelectedScores.cpp -------------------------------------------------===//

#include "codegen/kernels/SelectedScores.h"

using namespace mlir;
using namespace kvc;

Expr Selection::contains(Expr key, Expr item) const {
  return key.above(threshold) |
         ((key == threshold) & (item.toI32() <= lastTie));
}

/// Keys of the infinities: below and above these are those of NaN.
static constexpr int64_t leastKey = 0x007fffff, mostKey = 0xff800000;

SelectedScores::SelectedScores(KernelBuilder &k, const Selection &selection)
    : lastTie(selection.lastTie) {
  Expr key = selection.threshold;
  auto scoreOf = [&](Expr key) { return scoreBits(k, key).asFloat(); };
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

Expr kvc::scoreBits(KernelBuilder &k, Expr key) {
  return (key < 0).select(key ^ k.i32(INT32_MIN), key ^ k.i32(-1));
}

Expr kvc::orderedKey(KernelBuilder &k, Expr score) {
  // Adding +0 turns -0 into +0 and changes nothing else.
  Expr bits = (score + k.f32(0)).bits();
  Expr key = bits ^ (bits < 0).select(k.i32(-1), k.i32(INT32_MIN));
  return score.isNaN().select(k.i32(0), key);
}
